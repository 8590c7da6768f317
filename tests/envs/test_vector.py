"""Vector environments as worlds: every step that counts is learned from, no other is."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.envs.counting import IGNORED, LIMIT, Counting, Forgetful, register
from tests.rollout.worlds import WANDERER, Uneven, linear, pure_noise

from penfac.envs.options import EnvOptions
from penfac.envs.vector import VectorWorlds
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import ConfigError, EnvironmentFault
from penfac.rollout.episodes import play_episodes
from penfac.rollout.evaluate import act_by_mean
from penfac.rollout.host import Collected, HostWorlds
from penfac.rollout.lockstep import play_alone


class Parted(Uneven):
    """Its observation is a dict."""

    observation_space = gymnasium.spaces.Dict({"left": Uneven.observation_space})

    def reset(self, **how):
        return {"left": super().reset(**how)[0]}, {}

    def step(self, action):
        obs, *rest = super().step(action)
        return {"left": obs}, *rest


DEAF = ["NextStep", "SameStep"]
MODES = [mode.value for mode in AutoresetMode]


def collected(worlds: Worlds, count: int, steps: int, batches: int = 1) -> Collected:
    """The last of some batches of running worlds."""
    player, episode = HostWorlds(worlds, 1, count), 0
    for _ in range(batches):
        act = pure_noise(worlds.obs_dim, len(worlds.actions.low))
        batch = play_alone(worlds, player.collect_steps(act, episode, steps))
        episode = batch[2]
    return batch


def opened(env_id: str, count: int, size: int | None = None) -> VectorWorlds:
    worlds = open_worlds(env_id, EnvOptions(), count, size=size)
    assert isinstance(worlds, VectorWorlds)
    return worlds


def in_vectors(name: str, mode: str, make) -> str:
    """An id of Gymnasium's own SyncVectorEnv around `make`."""

    def entry(num_envs, max_episode_steps=None):
        return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)

    return register(f"tests/{name}-{mode}-v0", entry, limit=250)


# --- environments that reset themselves --------------------------------------------------


@pytest.mark.parametrize("mode", DEAF)
@pytest.mark.parametrize("count", [1, 4])
def test_a_step_joins_two_observations_of_one_episode(mode, count):
    env_id = register(f"tests/Counting{mode}-v0", mode=mode)
    batch, stats, _ = collected(opened(env_id, count, count), count, 60, batches=2)
    world, episode, t = batch.obs.T
    np.testing.assert_array_equal(batch.next_obs, np.stack([world, episode, t + 1], 1))
    np.testing.assert_array_equal(batch.reward, 100 * episode + t)
    assert IGNORED not in batch.reward
    over = t + 1 == 3 + (world + episode) % 5
    np.testing.assert_array_equal(batch.terminated, over & (episode % 2 == 0))
    np.testing.assert_array_equal(batch.truncated, over & (episode % 2 == 1))
    # nothing between two steps of a world is lost but what the mode ignores
    for w in range(count):
        times = t[world == w]
        follows = (np.diff(times) == 1) | ((times[1:] == 0) & over[world == w][:-1])
        assert follows.all()
    assert set(stats.lengths) <= set(range(3, 8))


@pytest.mark.parametrize("mode", DEAF)
def test_the_step_of_a_reset_takes_a_place_but_fills_none(mode):
    """The batch has fewer steps by as many resets as the mode makes in steps of their
    own; an environment alone waits for nobody."""
    env_id = register(f"tests/Counting{mode}-v0", mode=mode)
    for count in (1, 4):
        batch, stats, _ = collected(opened(env_id, count, count), count, 60)
        lost = count * 60 - len(batch.reward)
        waits = mode == "NextStep" and count > 1
        assert (0 < lost <= len(stats.lengths)) if waits else lost == 0


@pytest.mark.parametrize("mode", DEAF)
def test_evaluation_plays_whole_episodes_again_and_again(mode):
    env_id = register(f"tests/Counting{mode}-v0", mode=mode)
    worlds = opened(env_id, 5)
    for _ in range(3):
        act = act_by_mean(linear(3, 2))
        played = play_alone(worlds, play_episodes(worlds, act, [4, 5, 6, 7, 8]))
        first = worlds.pools[0].env
        assert isinstance(first, Counting)
        for length, returned in zip(played.lengths, played.returns, strict=True):
            whole, rest = divmod(returned - sum(range(length)), 100 * length)
            assert rest == 0
            assert whole >= 1


@pytest.mark.parametrize("mode", DEAF)
def test_whole_episodes_are_whole(mode):
    env_id = register(f"tests/Counting{mode}-v0", mode=mode)
    worlds = opened(env_id, 4, 4)
    player = HostWorlds(worlds, 1, 4)
    for turn in range(3):
        act = pure_noise(3)
        playing = player.collect_episodes(act, 10 * turn, 4, 40)
        batch, stats, _ = play_alone(worlds, playing)
        assert len(batch.reward) == sum(stats.lengths) >= 40
        np.testing.assert_array_equal(batch.next_obs[:, 2], batch.obs[:, 2] + 1)
        np.testing.assert_array_equal(batch.next_obs[:, 1], batch.obs[:, 1])


# --- environments that can be reset alone ------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["steps", "episodes"])
def test_gymnasium_vectors_play_what_single_worlds_play(mode, how):
    """Bit for bit: episodes of unequal lengths, some resumed in the middle."""
    one = lambda: gymnasium.wrappers.TimeLimit(Uneven(), 100)  # noqa: E731
    gymnasium.registry.pop("tests/Short-v0", None)
    gymnasium.register("tests/Short-v0", entry_point=Uneven, max_episode_steps=100)
    batches = []
    for env_id in ("tests/Short-v0", in_vectors("Uneven", mode, one)):
        worlds = open_worlds(env_id, EnvOptions(), 4, size=4)
        assert worlds.repeats
        player, episode, act = HostWorlds(worlds, 1, 4), 0, pure_noise(1, 1)
        for k in range(4):
            if how == "steps":
                if k == 2:  # as if resumed
                    running = player.snapshot()
                    worlds = open_worlds(env_id, EnvOptions(), 4, size=4)
                    player = HostWorlds(worlds, 1, 4)
                    player.restore(running)
                playing = player.collect_steps(act, episode, 70)
            else:
                playing = player.collect_episodes(act, episode, 4, 300)
            batch, stats, episode = play_alone(worlds, playing)
            batches.append((batch, stats.returns, stats.lengths))
    for ours, theirs in zip(batches[:4], batches[4:], strict=True):
        for a, b in zip(ours[0], theirs[0], strict=True):
            np.testing.assert_array_equal(a, b)
        assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("mode", MODES)
def test_the_roboschool_vectors_too(mode):
    """Another program than Gymnasium's, with parts of the reward."""
    task, told = "RoboschoolHopper-v2", []
    env = lambda num_envs, **_: gymnasium.make_vec(  # noqa: E731
        task, num_envs, "vector_entry_point", autoreset_mode=mode, max_episode_steps=40
    )
    limited = EnvOptions(max_episode_steps=40)
    vectors = register(f"tests/Hopper-{mode}-v0", env, limit=40)
    for env_id, options in ((task, limited), (vectors, EnvOptions())):
        worlds = open_worlds(env_id, options, 4, size=4)
        told.append(collected(worlds, 4, 60))
    for a, b in zip(told[0][0], told[1][0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert told[0][1] == told[1][1]
    assert "reward_alive" in told[1][1].terms


def test_processes_of_gymnasium():
    env = lambda num_envs, **_: gymnasium.make_vec(  # noqa: E731
        WANDERER, num_envs, "async", vector_kwargs={"context": "spawn"}
    )
    alone = collected(open_worlds(WANDERER, EnvOptions(), 2), 2, 50)
    worlds = opened(register("tests/Async-v0", env, limit=40), 2, 2)
    together = collected(worlds, 2, 50)
    worlds.close()
    for a, b in zip(alone[0], together[0], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_parts_of_observations_are_joined(mode):
    """The last observation of an episode too."""
    whole, parted = (in_vectors(k.__name__, mode, k) for k in (Uneven, Parted))
    joined = EnvOptions(flatten_obs=True)
    told = [
        collected(open_worlds(env_id, options, 4, size=4), 4, 300)
        for env_id, options in ((whole, EnvOptions()), (parted, joined))
    ]
    for a, b in zip(told[0][0], told[1][0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert told[0][0].terminated.any()


# --- wrong things ------------------------------------------------------------------------


def refused(env_id: str, size: int | None = None, **options) -> str:
    with pytest.raises(ConfigError) as refusal:
        open_worlds(env_id, EnvOptions(**options), 4, size=size)
    return str(refusal.value).removeprefix(f"{env_id}: ")


def test_what_cannot_be_worlds_is_refused():
    disabled = refused(register("tests/Wrong-v0", mode="Disabled"))
    assert re.search("is DISABLED, but .*reset_mask.* use NEXT_STEP", disabled)

    class Silent(Counting):
        @property
        def metadata(self):
            return {}

        @metadata.setter
        def metadata(self, value): ...

    assert "must be NEXT_STEP, SAME_STEP or" in refused(register("tests/W-v0", Silent))
    sized = register("tests/W-v0", lambda num_envs, **_: Counting(3))
    assert "num_envs = 3: must be the number of worlds, 4" in refused(sized, 4)
    assert opened(sized, 4).count == 6  # evaluation takes as many as it needs
    endless = register("tests/W-v0", Counting, limit=None)
    assert "has no time limit" in refused(endless)
    assert opened(register("tests/W-v0"), 1).spec().horizon == LIMIT

    class Discrete(Counting):
        single_action_space = gymnasium.spaces.Discrete(2)

    assert "must be a Box of floats" in refused(register("tests/W-v0", Discrete))
    same = in_vectors("Parted", "SameStep", Parted)
    assert "the observation is a dict of left; --flatten-obs" in refused(same)
    assert "use NEXT_STEP or DISABLED" in refused(same, flatten_obs=True)
    single = register("tests/W-v0", lambda num_envs, **_: Uneven())
    assert "made a Uneven; must make a gymnasium.vector.VectorEnv" in refused(single)


def test_a_lost_observation_is_a_fault():
    env_id = register("tests/Forgets-v0", Forgetful, mode="SameStep")
    with pytest.raises(EnvironmentFault, match='has no "final_obs"'):
        collected(opened(env_id, 4, 4), 4, 60)


def test_an_episode_beyond_its_limit_is_a_fault():
    env_id = register("tests/Late-v0", limit=5)
    with pytest.raises(EnvironmentFault, match="has not ended after 5 steps"):
        collected(opened(env_id, 4, 4), 4, 60)


def test_odd_arrays_are_faults():
    class Rows(Counting):
        def step(self, actions):
            obs, reward, *rest = super().step(actions)
            return obs, reward[:, None], *rest

    env_id = register("tests/Rows-v0", Rows)
    with pytest.raises(EnvironmentFault, match=r"reward of shape \(4, 1\)"):
        collected(opened(env_id, 4, 4), 4, 60)
