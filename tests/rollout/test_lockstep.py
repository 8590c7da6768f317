"""Players in lock-step: one call a round, each with its own rows, faults and end."""

import numpy as np
import pytest
from tests.rollout.worlds import pure_noise, tagged

from penfac.envs.options import EnvOptions
from penfac.envs.stepped import Stepped
from penfac.envs.worlds import GymWorlds, open_worlds
from penfac.errors import EnvironmentFault
from penfac.rollout.host import HostWorlds
from penfac.rollout.lockstep import Ask, play_alone, play_together


class Counting:
    """Worlds whose observation is their number; every call is written down."""

    def __init__(self, broken: int | None = None):
        self.calls, self.broken = [], broken

    def step(self, rows, actions):
        self.calls.append(list(rows))
        k, none = len(rows), np.zeros(len(rows), bool)
        faults = {
            i: EnvironmentFault(f"world {w}")
            for i, w in enumerate(rows)
            if w == self.broken
        }
        seen = np.array(rows, np.float32)[:, None]
        return Stepped(seen, actions[:, 0], none, none, {"a": np.arange(k)}, faults)


def player(rows: list[int], rounds: int, gain: float):
    """Asks for its rows `rounds` times, checks what comes back, and says how much."""
    total = 0.0
    for _ in range(rounds):
        got = yield Ask(np.array(rows), np.full((len(rows), 1), gain))
        for fault in got.faults.values():
            raise fault
        assert got.obs[:, 0].tolist() == rows
        assert len(got.terms["a"]) == len(rows)
        total += got.reward.sum()
    return total


def test_each_round_is_one_call_and_whoever_is_done_leaves():
    worlds = Counting()
    players = {"x": player([0, 1], 1, 1.0), "y": player([4], 3, 2.0)}
    ends = list(play_together(worlds, players))
    assert ends == [("x", 2.0), ("y", 6.0)]
    assert worlds.calls == [[0, 1, 4], [4], [4]]


def test_a_fault_reaches_the_player_whose_world_it_was():
    worlds = Counting(broken=4)
    players = {"x": player([0, 1], 2, 1.0), "y": player([3, 4], 2, 2.0)}
    ends = dict(play_together(worlds, players))
    assert ends["x"] == 4.0
    assert str(ends["y"]) == "world 4"
    with pytest.raises(EnvironmentFault, match="world 4"):
        play_alone(worlds, player([4], 1, 0.0))


def test_a_player_that_asks_for_nothing_ends_at_once():
    assert play_alone(Counting(), player([], 0, 0.0)) == 0.0


def test_learners_collect_together_what_each_collects_alone():
    """Batches of three learners on shared worlds, bit for bit those of lonely ones."""
    env_id, seeds, count = "RoboschoolHopper-v2", (0, 1, 2), 2
    act = pure_noise(15, 3, sigma=0.3)
    shared = open_worlds(env_id, EnvOptions(), count * len(seeds))
    together = dict(
        play_together(
            shared,
            {
                seed: HostWorlds(shared, seed, count, first=count * k).collect_episodes(
                    act, 0, 3, 40
                )
                for k, seed in enumerate(seeds)
            },
        )
    )
    for seed in seeds:
        own = open_worlds(env_id, EnvOptions(), count)
        worlds = HostWorlds(own, seed, count)
        batch, stats, following = play_alone(
            own, worlds.collect_episodes(act, 0, 3, 40)
        )
        got, got_stats, got_following = together[seed]
        assert got_following == following
        assert got_stats == stats
        for name, x, y in zip(batch._fields, batch, got, strict=True):
            assert x.tobytes() == y.tobytes(), name


def test_the_parts_of_the_reward_add_up():
    """Their means over a batch are the mean reward of its steps."""
    worlds = open_worlds("RoboschoolHalfCheetah-v2", EnvOptions(), 3)
    learner = HostWorlds(worlds, 0, 3)
    batch, stats, _ = play_alone(
        worlds, learner.collect_steps(pure_noise(26, 6, sigma=0.3), 0, 50)
    )
    assert sum(stats.terms.values()) == pytest.approx(batch.reward.mean(), abs=1e-5)
    assert set(stats.terms) >= {"reward_alive", "reward_progress"}
    silent = GymWorlds(tagged([5] * 400, 0), 2)
    _, stats, _ = play_alone(
        silent, HostWorlds(silent, 0, 2).collect_steps(pure_noise(3), 0, 5)
    )
    assert stats.terms == {}
