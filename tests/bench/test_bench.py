"""The parts of `penfac bench` that measure nothing: tables, pictures, made-up studies."""

import json

import numpy as np
import pytest

from penfac.bench import mine, programs, studies
from penfac.settings.penfac import Config
from penfac.studies import findings

ROWS = [
    *({"seeds": n, "worlds": 8, "update_s": 0.1 * n} for n in (1, 4, 16, 60, 240)),
    *({"seeds": 60, "worlds": w, "update_s": 8.0 / w} for w in (32, 64, 128)),
]


def test_the_cost_figure_has_what_was_measured_across_seeds_and_across_worlds():
    assert programs.points(ROWS, "seeds", "worlds", 8)[-1] == (240, 24.0)
    across = programs.points(ROWS, "worlds", "seeds", 60)
    assert across == [(8, 6.0), (32, 0.25), (64, 0.125), (128, 0.0625)]
    assert programs.picture({"cost": ROWS}).startswith(b"\x89PNG")


def test_the_sizes_of_programs_are_those_of_the_cost_table():
    """60 seeds are measured with every number of worlds, 8 worlds with every number of
    seeds."""
    full = programs.FULL
    assert full.seeds in full.across_seeds
    assert full.few in full.across_worlds


@pytest.mark.slow
def test_programs_are_timed_one_after_the_other():
    pytest.importorskip("mujoco.mjx")
    tiny = programs.config("tuned", **programs.running(2, 8))
    asked = {n: programs.Program([tiny], n) for n in (1, 2)}
    order = []
    found = programs.in_turn(asked, lambda name, _: order.append(name))
    assert order == [1, 2]
    for seeds, measured in found.items():
        assert measured.steps == 8 * seeds
        assert 0 < measured.seconds < measured.first  # which compiled it


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_both_sides_of_a_contest_take_as_many_gradient_steps(algo):
    """The first after as many steps of the environment, so the numbers stay equal."""
    pytest.importorskip("stable_baselines3")
    from penfac.bench import contest, ours, peer

    steps = contest.settings(algo, contest.PENDULUM)["learning_starts"] + 50
    model = peer.same_replayed(algo, contest.PENDULUM, 0)
    model.learn(steps)
    engine, counters = ours.our_engine(algo, contest.PENDULUM, 0, steps)
    ours.advance(engine, counters, steps)
    taken = engine.learners[0].state.learner.steps
    engine.close()
    assert model._n_updates == taken == 100


@pytest.mark.slow
def test_every_rival_is_timed_and_raced():
    """Each hears of every batch, with a policy that plays; a low aim is reached at the
    first look, a high one never."""
    pytest.importorskip("stable_baselines3")
    from penfac.bench import rivals

    steps = (rivals.WARM + rivals.TIMED) * rivals.BATCH
    for rival in rivals.rivals():
        assert rivals.steps_per_second(rival, "Pendulum-v1") > 0
        for aim, reached in ((-1e4, True), (0.0, False)):
            judge = rivals.Judge(rivals.Race("Pendulum-v1", {}, 1, 1), aim)
            judge.next = rivals.BATCH
            rival.train("Pendulum-v1", 0, steps, judge)
            assert judge.reached == reached
            assert judge.steps == (rivals.BATCH if reached else steps)
            assert -2000 < judge.mean < 0
            assert judge.seconds > 0


def test_times_that_were_not_enough_are_called_so():
    pytest.importorskip("stable_baselines3")
    from penfac.bench import rivals

    assert rivals.words([(12.3, True), (45.6, False)]) == "12, over 46"


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ddpg", "td3"])
def test_both_sides_of_a_contest_begin_with_uniform_actions(algo):
    """No noise on them: clipped, it would put some of them on the bounds."""
    pytest.importorskip("stable_baselines3")
    from penfac.bench import contest, ours, peer

    race = contest.PENDULUM
    starts = contest.settings(algo, race)["random_steps"]
    model = peer.same_replayed(algo, race, 0)
    model.learn(starts + 50)
    engine, counters = ours.our_engine(algo, race, 0, starts + 50)
    ours.advance(engine, counters, starts + 50)
    played = np.asarray(engine.learners[0].state.replay.rows.action)[: starts - 1]
    engine.close()
    for actions in (model.replay_buffer.actions[: starts - 1], played):
        assert np.abs(actions).max() < 1
        assert abs(actions.std() - 3**-0.5) < 0.03
    assert model.action_noise.silent == 0


def test_a_made_up_study_is_one_that_can_be_told(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "TOLD", (2, 3, 5))
    studies.large(tmp_path / "large")
    found = findings.findings(tmp_path / "large")
    assert found["counts"]["finished"] == 6
    assert len(found["panels"][0]["arms"][1]["seeds"][2]["steps"]) == 5
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("arms", [1, 3])
def test_short_runs_differ_in_a_number_alone(arms):
    study = studies.short(arms)
    assert len({arm.settings["sigma"] for arm in study.arms}) == arms


@pytest.mark.slow
def test_the_parts_of_a_run_on_ones_own_task_add_up(monkeypatch):
    """Environment, acting, learning and the rest are the whole."""
    monkeypatch.setattr(mine, "FIRST", 1)
    said: list[str] = []
    report = mine.run(
        True, said.append, env="Pendulum-v1", algo="penfac", env_workers=0
    )
    measured = {row["figure"]: row["measured"] for row in report["figures"]}
    parts = [v for k, v in measured.items() if k.startswith("... of it")]
    assert len(parts) == 4
    assert sum(int(part.split()[0]) for part in parts) == pytest.approx(100, abs=2)
    assert report["steps_per_second"] > 0
    assert f"{Config().worlds} worlds alone" in measured
