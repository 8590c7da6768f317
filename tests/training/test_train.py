"""The loop: who is advanced, when mu is judged, who stops."""

from itertools import pairwise

import numpy as np
import pytest
from tests.engines.jobs import make_job

from penfac.engines.base import Counters, Progress
from penfac.errors import Divergence, EnvironmentFault
from penfac.training.loop import Evaluated, Failed, Schedule, Settled, Updated, train
from penfac.types import EpisodeStats


class Scripted:
    """An engine that only counts: every update plays so many steps and episodes."""

    def __init__(self, steps: int = 7, episodes: int = 5):
        self.steps, self.episodes = steps, episodes
        self.calls: list[tuple] = []
        self.fails: dict[tuple[str, int, int], Exception] = {}

    def advance(self, due):
        self.calls.append(("advance", [i for i, _ in due]))
        for i, c in due:
            error = self.fails.get(("advance", i, c.update))
            yield (
                i,
                error
                or Progress(
                    {},
                    self.steps,
                    c.episode + self.episodes,
                    EpisodeStats([], [], {}),
                    0,
                    0,
                    {},
                ),
            )

    def evaluate(self, due, episodes, fixed):
        if due:
            numbers = [(i, c.evaluations) for i, c in due]
            self.calls.append(("evaluate", numbers, episodes, fixed))
        for i, c in due:
            error = self.fails.get(("evaluate", i, c.evaluations))
            flags = [False] * episodes
            mean = ([1.0] * episodes, [3] * episodes, flags)
            other = ([2.0] * episodes, [4] * episodes, flags)
            yield i, error or {"mean": mean, "sampled": other}


def judged_at(engine, schedule, learners=1) -> list[int]:
    counters = [Counters() for _ in range(learners)]
    events = list(train(engine, counters, schedule))
    return [e.point.step for e in events if isinstance(e, Evaluated) and e.learner == 0]


@pytest.mark.parametrize(
    ("steps", "every", "total"),
    [(7, 10, 100), (20, 20, 100), (30, 20, 100), (1, 3, 10)],
)
def test_evaluations_keep_a_constant_interval(steps, every, total):
    """At step 0, at the first moment past each multiple of the interval, and at the end;
    never twice at one step. An update longer than the interval is followed by one."""
    reached = list(range(0, total + steps, steps))
    reached = reached[: next(k for k, s in enumerate(reached) if s >= total) + 1]
    expected = [0]
    for before, now in pairwise(reached):
        if now // every > before // every or now >= total:
            expected.append(now)
    assert judged_at(Scripted(steps), Schedule(total, every, 2)) == expected


def test_a_point_is_the_mean_and_keeps_the_other_modes_beside_it():
    events = list(train(Scripted(7), [Counters()], Schedule(7, 7, 2)))
    points = [e.point for e in events if isinstance(e, Evaluated)]
    assert len(points) == 2
    for point in points:
        assert (point.returns, point.lengths) == ([1.0, 1.0], [3, 3])
        assert point.others == {"sampled": ([2.0, 2.0], [4, 4], [False, False])}


def test_a_start_and_an_end_are_always_judged():
    """An interval longer than the run leaves the two."""
    assert judged_at(Scripted(7), Schedule(50, 10**9, 1)) == [0, 56]


def test_the_authors_protocol_counts_episodes_and_changes_states():
    """Every 20 episodes, one episode, on other initial states each time; the usual one
    always plays the same states."""
    engine = Scripted(steps=10, episodes=5)
    assert judged_at(engine, Schedule(200, 20, 1, "episodes")) == [
        0,
        40,
        80,
        120,
        160,
        200,
    ]
    evaluations = [c for c in engine.calls if c[0] == "evaluate"]
    assert [c[1:] for c in evaluations] == [([(0, k)], 1, False) for k in range(6)]
    engine = Scripted()
    judged_at(engine, Schedule(50, 20, 10))
    assert all(c[2:] == (10, True) for c in engine.calls if c[0] == "evaluate")


def test_the_budget_is_reached_and_not_passed_by_more_than_an_update():
    counters = [Counters(), Counters()]
    events = list(train(Scripted(7), counters, Schedule(100, 50, 1)))
    for c in counters:
        assert c.step == 105
        assert c.update == 15
        assert c.episode == 15 * 5
    assert sum(isinstance(e, Updated) for e in events) == 30


def test_counters_move_before_the_event_is_told():
    """Whoever hears of an update or an evaluation finds the counters where it says."""
    counters, updates = [Counters()], 0
    for event in train(Scripted(7), counters, Schedule(50, 20, 1)):
        if isinstance(event, Updated):
            updates += 1
            assert (counters[0].update, counters[0].step) == (updates, 7 * updates)
        elif isinstance(event, Evaluated):
            assert event.point.step == counters[0].step == counters[0].evaluated_at
            assert event.point.update == counters[0].update


def test_every_learner_stands_at_the_same_point_when_settled():
    """Settled comes when nobody is half way: counters of all learners agree."""
    counters = [Counters() for _ in range(3)]
    settled = 0
    for event in train(Scripted(7), counters, Schedule(50, 20, 1)):
        if isinstance(event, Settled):
            settled += 1
            assert len({(c.update, c.step, c.evaluations) for c in counters}) == 1
    assert settled >= 2 * 8


@pytest.mark.parametrize("where", ["advance", "evaluate"])
def test_a_learner_that_fails_stops_alone(where):
    """After its failure it is neither advanced nor judged; the others reach the end."""
    engine = Scripted(7)
    error = Divergence("nan") if where == "advance" else EnvironmentFault("broke")
    engine.fails[(where, 1, 1)] = error
    counters = [Counters() for _ in range(3)]
    events = list(train(engine, counters, Schedule(50, 20, 1)))
    failures = [(e.learner, e.error) for e in events if isinstance(e, Failed)]
    assert failures == [(1, error)]
    at = events.index(next(e for e in events if isinstance(e, Failed)))
    later = [e.learner for e in events[at + 1 :] if isinstance(e, Updated | Evaluated)]
    assert 1 not in later
    assert {counters[0].step, counters[2].step} == {56}
    assert counters[1].step < 56


def test_a_resumed_learner_does_not_repeat_its_evaluation():
    """From the counters of a stopped run the loop goes on with what is due next."""
    whole, schedule = Scripted(7), Schedule(100, 20, 1)
    all_steps = judged_at(whole, schedule)
    counters, seen = [Counters()], []
    for event in train(Scripted(7), counters, schedule):
        if isinstance(event, Evaluated):
            seen.append(event.point.step)
        if isinstance(event, Settled) and counters[0].step >= 42:
            break
    for event in train(Scripted(7), counters, schedule):
        if isinstance(event, Evaluated):
            seen.append(event.point.step)
    assert seen == all_steps


def test_a_finished_learner_is_left_alone():
    """With its budget spent and judged there, nothing more happens to it."""
    counters, schedule = [Counters()], Schedule(50, 20, 1)
    list(train(Scripted(7), counters, schedule))
    engine = Scripted(7)
    events = list(train(engine, counters, schedule))
    assert not any(isinstance(e, Updated | Evaluated) for e in events)


def test_counters_are_integers_that_never_wrap():
    """From 2**31 - 2 on they count exactly, past 32 bits and 2**53."""
    for start in (2**31 - 2, 2**53 - 2):
        counters = [
            Counters(update=start, step=start, episode=start, evaluations=start)
        ]
        list(train(Scripted(7), counters, Schedule(start + 70, 35, 1)))
        c = counters[0]
        assert (c.update, c.step, c.episode) == (start + 10, start + 70, start + 50)
        assert all(type(x) is int for x in vars(c).values())


def test_sigma_follows_its_line():
    """sigma + (sigma_end - sigma) step / steps, held at its end, constant without one."""
    job = make_job("penfac/LQR-v0", steps=1000, sigma=0.4, sigma_end=0.1)
    steps = np.array([0, 1, 250, 999, 1000, 5000])
    expected = 0.4 - 0.3 * np.minimum(steps / 1000, 1)
    np.testing.assert_allclose([job.sigma(int(s)) for s in steps], expected, rtol=1e-6)
    constant = make_job("penfac/LQR-v0", steps=1000, sigma=0.4)
    assert {constant.sigma(int(s)) for s in steps} == {0.4}
