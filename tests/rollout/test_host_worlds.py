"""The host collector: which steps a batch holds, whose noise they carry, who goes on."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import scipy.stats
from tests.rollout.worlds import (
    EPISODES,
    LoneWorlds,
    Uneven,
    Wanderer,
    linear,
    opener,
    pure_noise,
    tagged,
)

from penfac.core.noise import Exploration
from penfac.envs.gym import open_world
from penfac.envs.options import EnvOptions
from penfac.envs.worlds import GymWorlds, open_worlds
from penfac.randomness import Stream, env_seed
from penfac.rollout.episodes import play_episodes
from penfac.rollout.evaluate import Candidate, Evaluator, act_by_mean
from penfac.rollout.explorer import Explorer
from penfac.rollout.host import NOISE_BLOCK, HostWorlds
from penfac.rollout.lockstep import play_alone
from penfac.types import Transitions

SEED = 11
UNEQUAL = [4, 1, 6, 2, 3, 5, 1, 7, 2, 2] * (EPISODES // 10)


def tags(batch: Transitions) -> list[tuple[int, int]]:
    """(episode, t) of every step, in the order of the batch."""
    return [(int(e), int(t)) for e, t, _ in batch.obs]


def check_episodes(batch: Transitions, episodes: range, lengths) -> None:
    """The batch is exactly these episodes, whole, in order, with right ends."""
    assert tags(batch) == [(e, t) for e in episodes for t in range(lengths[e])]
    episode, t, world = batch.obs.T
    np.testing.assert_array_equal(batch.next_obs.T, [episode, t + 1, world])
    np.testing.assert_array_equal(batch.reward, 1000 * episode + t)
    over = t + 1 == np.array([lengths[int(e)] for e in episode])
    np.testing.assert_array_equal(batch.terminated, over & (episode % 2 == 0))
    np.testing.assert_array_equal(batch.truncated, over & (episode % 2 == 1))
    np.testing.assert_array_equal(batch.last, over)
    assert batch.mask.all()
    for e in episodes:
        assert len(set(world[episode == e])) == 1, "an episode moved between worlds"


def same(a: Transitions, b: Transitions) -> None:
    for name, x, y in zip(a._fields, a, b, strict=True):
        assert x.tobytes() == y.tobytes(), name


# --- whole episodes ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
def test_a_batch_is_exactly_its_episodes(count):
    """Seven episodes of unequal lengths give exactly their steps for any number of
    worlds: none missing, none of a reset, next_obs always of the same episode."""
    worlds = LoneWorlds(tagged(UNEQUAL, SEED), SEED, count)
    batch, stats, following = worlds.collect_episodes(pure_noise(3), 5, 7, 1)
    assert following == 12
    check_episodes(batch, range(5, 12), UNEQUAL)
    expected = {e: sum(1000.0 * e + t for t in range(UNEQUAL[e])) for e in range(5, 12)}
    assert sorted(stats.returns) == sorted(expected.values())
    assert sorted(stats.lengths) == sorted(UNEQUAL[5:12])


def test_the_floor_in_steps_adds_whole_episodes_and_stops_at_once():
    """One world: episodes follow each other until their steps reach the floor."""
    worlds = LoneWorlds(tagged(UNEQUAL, SEED), SEED, 1)
    batch, _, following = worlds.collect_episodes(pure_noise(3), 0, 2, 20)
    check_episodes(batch, range(following), UNEQUAL)
    total = sum(UNEQUAL[:following])
    assert total >= 20 > total - UNEQUAL[following - 1]


def test_nothing_starts_once_the_floor_is_reached():
    """Many worlds: without what started last the batch was short of its floor."""
    floor = 60
    worlds = LoneWorlds(tagged(UNEQUAL, SEED), SEED, 4)
    batch, _, following = worlds.collect_episodes(pure_noise(3), 0, 4, floor)
    check_episodes(batch, range(following), UNEQUAL)
    assert len(batch.reward) >= floor
    # worlds play in lock-step, so the steps before the last start are known exactly
    last = following - 1
    ages, free_at = {}, [0] * 4
    for e in range(following):
        w = min(range(4), key=lambda w: (free_at[w], w)) if e >= 4 else e
        ages[e] = free_at[w]
        free_at[w] += UNEQUAL[e]
    then = ages[last]
    before = sum(min(UNEQUAL[e], max(0, then - ages[e])) for e in range(last))
    assert before < floor


def test_short_episodes_are_not_favoured():
    """Lengths 1 and 30: over many batches with a floor, every episode number is used
    exactly once and whole, so the mean length is that of the episodes themselves.
    Taking the first ones to end would use the short ones alone."""
    lengths = np.random.default_rng(0).choice([1, 30], EPISODES).tolist()
    worlds = LoneWorlds(tagged(lengths, SEED), SEED, 8)
    seen, following = [], 0
    for _ in range(10):
        batch, stats, after = worlds.collect_episodes(pure_noise(3), following, 8, 100)
        check_episodes(batch, range(following, after), lengths)
        seen += stats.lengths
        following = after
    assert following < EPISODES
    assert np.mean(seen) == np.mean(lengths[:following])


def test_an_environment_that_reuses_its_buffer_is_copied():
    """An observation array changed in place later does not change the batch."""
    batches = [
        LoneWorlds(tagged(UNEQUAL, SEED, reuse=reuse), SEED, 3).collect_episodes(
            pure_noise(3), 0, 6, 1
        )[0]
        for reuse in (False, True)
    ]
    same(*batches)


def test_an_end_that_is_both_is_terminated():
    """Terminated and truncated at the same step: the end is real, nothing is
    bootstrapped there."""
    worlds = LoneWorlds(tagged(UNEQUAL, SEED, both=True), SEED, 3)
    batch, *_ = worlds.collect_episodes(pure_noise(3), 0, 6, 1)
    check_episodes(batch, range(6), UNEQUAL)


# --- noise -------------------------------------------------------------------------------


def played_noise(seed: int, count: int, episodes: int, length: int) -> np.ndarray:
    """The uniform numbers behind the actions, as [episode, t, m]."""
    lengths = [length] * EPISODES
    worlds = LoneWorlds(tagged(lengths, seed), seed, count)
    act = pure_noise(3)
    batch, *_ = worlds.collect_episodes(act, 0, episodes, 1)
    return scipy.special.ndtr(batch.action / act.sigma).reshape(episodes, length, 2)


def test_noise_is_a_function_of_seed_episode_and_step():
    """The same episode number has the same noise however many worlds play, past the
    block that is drawn at once."""
    length = 2 * NOISE_BLOCK + 3
    alone = played_noise(SEED, 1, 6, length)
    for count in (2, 6):
        assert played_noise(SEED, count, 6, length).tobytes() == alone.tobytes()


def test_noise_is_uniform_and_independent():
    """Across steps, worlds, dimensions, episodes, blocks and seeds: |correlation| is
    under 4 / sqrt(N), and the distribution is uniform."""
    u = played_noise(SEED, 8, 32, 300)
    other = played_noise(SEED + 1, 8, 32, 300)
    pairs = {
        "neighbouring steps": (u[:, :-1], u[:, 1:]),
        "blocks": (u[:, :-NOISE_BLOCK], u[:, NOISE_BLOCK:]),
        "worlds": (u[:-1], u[1:]),
        "updates": (u[:-8], u[8:]),
        "dimensions": (u[..., 0], u[..., 1]),
        "seeds": (u, other),
    }
    for name, (a, b) in pairs.items():
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(a.size), name
    assert scipy.stats.kstest(u.ravel(), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("law", ["truncated", "clipped"])
def test_actions_follow_mu(law):
    """Actions scatter around mu(s) with standard deviation sigma, both as asked for."""
    sigma, gain = 0.05, 0.01
    worlds = LoneWorlds(opener(lambda _: Wanderer(500)), SEED, 4)
    act = Explorer(linear(2, 2, gain), Exploration(law), sigma)
    batch, *_ = worlds.collect_episodes(act, 0, 4, 1)
    noise = batch.action - gain * batch.obs.sum(axis=1, keepdims=True)
    n = noise.size
    assert abs(noise.mean()) < 4 * sigma / np.sqrt(n)
    assert abs(noise.std() - sigma) < 4 * sigma / np.sqrt(2 * n)


@pytest.mark.parametrize("clip", [True, False])
def test_a_sample_is_charged_as_the_environment_got_it(clip):
    """D32: rewards of -a^2, of the sample itself or of its nearest end; a world that is
    played again is given the same."""
    worlds = LoneWorlds(opener(lambda _: Uneven()), SEED, 1, clip=clip)
    act = Explorer(linear(1, 1), Exploration("gaussian", clip=clip), 2.0)
    batch, *_ = worlds.collect_steps(act, 0, 30)
    played = np.clip(batch.action, -1, 1) if clip else batch.action
    assert np.abs(batch.action).max() > 2
    np.testing.assert_allclose(batch.reward, -(played[:, 0] ** 2), rtol=1e-5)
    again = LoneWorlds(opener(lambda _: Uneven()), SEED, 1, clip=clip)
    again.restore(worlds.snapshot())
    np.testing.assert_allclose(again.returned, worlds.returned)


@pytest.mark.parametrize("clip", [True, False])
def test_roboschool_charges_what_was_sampled(clip):
    """Its torque is clipped and its stall cost is not: -0.1 mean a^2."""
    worlds = open_worlds("RoboschoolHopper-v2", EnvOptions(), 1)
    player = HostWorlds(worlds, SEED, 1, clip=clip)
    act = Explorer(linear(worlds.obs_dim, 3), Exploration("gaussian", clip=clip), 2.0)
    batch, stats, _ = play_alone(worlds, player.collect_steps(act, 0, 5))
    worlds.close()
    played = np.clip(batch.action, -1, 1) if clip else batch.action
    cost = -0.1 * np.mean(played.astype(float) ** 2)
    np.testing.assert_allclose(stats.terms["reward_stall_torque"], cost, rtol=1e-5)


# --- initial states ----------------------------------------------------------------------


def test_initial_states_all_differ():
    """Thirty-two episodes of two seeds start from sixty-four different states."""
    starts = set()
    for seed in (0, 1):
        worlds = LoneWorlds(lambda: open_world("Pendulum-v1", EnvOptions()), seed, 8)
        batch, *_ = worlds.collect_episodes(pure_noise(3, 1), 0, 32, 1)
        starts |= {row.tobytes() for row in batch.obs[::200]}
        worlds.worlds.close()
    assert len(starts) == 64


class Noted(Wanderer):
    """Writes down what it was reset with."""

    def __init__(self, seeds: list):
        super().__init__(limit=3)
        self.seeds = seeds

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_training_and_evaluation_never_share_a_reset_seed():
    """The seeds of training, of evaluation and of judging are three sets apart, and an
    evaluation repeats its own while one with another number has others."""
    seeds: list[int] = []
    worlds = LoneWorlds(opener(lambda _: Noted(seeds)), SEED, 4)
    worlds.collect_episodes(pure_noise(2), 0, 50, 1)
    training = set(seeds)
    assert len(training) == 50
    make = opener(lambda _: Noted(seeds))
    evaluator = Evaluator(lambda count: GymWorlds(make, count))
    sets = []
    for evaluation, stream in (
        (0, Stream.EVAL_RESET),
        (0, Stream.EVAL_RESET),
        (1, Stream.EVAL_RESET),
        (0, Stream.PLAY_RESET),
    ):
        seeds.clear()
        who = Candidate(SEED, act_by_mean(linear(2, 2)), evaluation)
        list(evaluator.play({0: who}, 10, stream))
        sets.append(list(seeds))
    first, again, other, judged = sets
    assert first == again
    groups = [training, set(first), set(other), set(judged)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 80


def test_evaluation_returns_are_undiscounted_sums_of_whole_episodes():
    """Each episode is played to its end: the sum of its rewards, its length, its flag."""
    lengths = UNEQUAL
    open_one = tagged(lengths, SEED)
    worlds = GymWorlds(open_one, 4)

    seeds = [env_seed(SEED, Stream.TRAIN_RESET, e) for e in range(4)]
    idle = play_episodes(worlds, lambda obs, t: np.zeros((len(obs), 2)), seeds)
    returns, played, ended = play_alone(worlds, idle)
    assert played == lengths[:4]
    assert returns == [sum(1000.0 * e + t for t in range(lengths[e])) for e in range(4)]
    assert ended == [True, False, True, False]


# --- worlds that go on -------------------------------------------------------------------


def collect_rows(worlds: LoneWorlds, batches: int, steps: int):
    """Several batches of running worlds."""
    following, out = 0, []
    for _ in range(batches):
        batch, stats, following = worlds.collect_steps(pure_noise(3), following, steps)
        out.append((batch, stats))
    return out, following


def test_running_worlds_go_on_across_batches():
    """Batches of five steps of three worlds: each world's rows follow each other across
    batches, and the end of a row is `last` without ending an episode."""
    count, steps = 3, 5
    worlds = LoneWorlds(tagged(UNEQUAL, SEED), SEED, count)
    batches, following = collect_rows(worlds, 8, steps)
    whole = {w: [] for w in range(count)}
    for batch, _ in batches:
        assert len(batch.reward) == count * steps
        rows = batch.obs.reshape(count, steps, 3)
        assert [set(r[:, 2]) for r in rows] == [{w} for w in range(count)]
        for w in range(count):
            whole[w] += [tuple(x) for x in rows[w, :, :2].astype(int)]
        episode, t, world = batch.obs.T
        np.testing.assert_array_equal(batch.next_obs.T, [episode, t + 1, world])
        over = t + 1 == np.array([UNEQUAL[int(e)] for e in episode])
        np.testing.assert_array_equal(batch.terminated, over & (episode % 2 == 0))
        np.testing.assert_array_equal(batch.truncated, over & (episode % 2 == 1))
        cut = np.arange(count * steps) % steps == steps - 1
        np.testing.assert_array_equal(batch.last, over | cut)
    assert any((b.last & ~b.terminated & ~b.truncated).any() for b, _ in batches)
    begun = []
    for rows in whole.values():
        assert rows[0][1] == 0
        for (e, t), (e_next, t_next) in pairwise(rows):
            if t + 1 == UNEQUAL[e]:
                assert t_next == 0
                assert e_next > e
            else:
                assert (e_next, t_next) == (e, t + 1)
        begun += sorted({e for e, _ in rows})
    # a world whose last step ended an episode has begun one that no batch shows yet
    assert set(begun) <= set(range(following))
    assert len(begun) == len(set(begun)) >= following - count
    lengths = [n for _, stats in batches for n in stats.lengths]
    returns = [r for _, stats in batches for r in stats.returns]
    ended = [e for rows in whole.values() for e, t in rows if t + 1 == UNEQUAL[e]]
    assert sorted(lengths) == sorted(UNEQUAL[e] for e in ended)
    sums = [sum(1000.0 * e + t for t in range(UNEQUAL[e])) for e in ended]
    assert sorted(returns) == sorted(sums)


@pytest.mark.parametrize(
    ("how", "sigma"),
    [(Exploration("truncated"), 0.3), (Exploration("ou", theta=0.15, dt=0.01), 3.0)],
    ids=["truncated", "ou"],
)
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_restored_world_goes_on_bit_for_bit(before, how, sigma):
    """From a snapshot, other worlds play the next batches with the same bits: where the
    noise block is just used up (128 = 2 x 64), inside one, and at the very start. Noise
    that remembers goes on from where it stood."""
    act, steps = Explorer(linear(2, 2, 0.01), how, sigma), 64
    make = opener(lambda _: Wanderer(300))
    worlds, following = LoneWorlds(make, SEED, 3), 0
    for _ in range(before):
        *_, following = worlds.collect_steps(act, following, steps)
    standing = worlds.snapshot()
    assert standing.drift.any() == (how.law == "ou" and before > 0)
    other = LoneWorlds(make, SEED, 3)
    other.restore(standing)
    for _ in range(4):
        batch, stats, after = worlds.collect_steps(act, following, steps)
        again, stats_again, after_again = other.collect_steps(act, following, steps)
        same(batch, again)
        assert (stats, after) == (stats_again, after_again)
        following = after


def test_an_environment_deaf_to_its_seed_begins_new_episodes():
    """Playing the same actions again leads elsewhere: nothing else is lost."""
    make = opener(lambda _: Wanderer(300, shaken=True))
    worlds = LoneWorlds(make, SEED, 2)
    *_, following = worlds.collect_steps(pure_noise(2), 0, 5)
    other = LoneWorlds(make, SEED, 2)
    assert other.restore(worlds.snapshot()) == 2
    standing = other.snapshot()
    assert list(standing.episode) == [-1, -1]
    assert not len(standing.actions)
    *_, after = other.collect_steps(pure_noise(2), following, 5)
    assert after == following + 2
    assert list(other.episode) == [following, following + 1]
