"""policy-best/: the policy of the best evaluation, the same however a run was killed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.faults.commands import command, newest_checkpoint
from tests.small_models import JUDGED, own_folder, small, train

import penfac
from penfac.errors import ConfigError
from penfac.runs.evaluations import read_evaluations

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
FILES = ("policy-best/policy.safetensors", "policy-best/policy.json")
# a learner that gets worse: the best evaluation is not the last
WORSE = ("--set=actor_lr=0.3",)


def best_of(run: Path):
    return max(read_evaluations(run), key=lambda point: point.mean)


def test_it_is_the_policy_of_the_best_evaluation():
    heard = {}
    model = small(actor_lr=0.3)
    keeps = lambda e: heard.setdefault(e.step, model.policy) and None  # noqa: E731
    model.learn(300, keeps, **JUDGED)
    best = best_of(model.run)
    assert best.step < 300  # or this shows nothing
    about = model.best_policy.about
    assert about["step"] == best.step
    assert about["return"] == best.mean
    assert about["episodes"] == 1
    state = np.float32([0.5, -0.5, 1.0])
    np.testing.assert_array_equal(model.best_policy(state), heard[best.step](state))
    text = json.loads((model.run / "policy-best/policy.json").read_text())
    assert text["about"] == about


def test_eval_and_export_take_it():
    run = train("--steps=300", *WORSE)
    step = best_of(run).step
    done = command("eval", run, "--best", "--episodes=2", "--json")
    report = json.loads(done.out)
    assert report["policy"] == "policy-best"
    assert report["seeds"][0]["step"] == step
    model = penfac.load(run)
    assert report["seeds"][0] == model.evaluate(2, best=True)
    assert report["seeds"][0]["returns"] != model.evaluate(2)["returns"]
    assert "best policy" in command("eval", run, "--best", "--episodes=2").out
    for which, file in (((), "last.h"), (("--best",), "best.h")):
        assert command("export", run, *which, "--c", file, "--name=mu").code == 0
    texts = [Path(name).read_text() for name in ("last.h", "best.h")]
    assert texts[0] != texts[1]
    done = command("export", run / "policy", "--best", "--c", "no.h")
    assert done.code == 2
    assert "--best: " in done.line


def test_the_card_says_how_it_was_chosen():
    run = train("--steps=300", *WORSE)
    assert command("card", run).code == 0
    text = (run / "policy/README.md").read_text()
    best = best_of(run)
    assert f"step {best.step}" in text
    assert f"{best.mean:.2f}" in text
    assert "chosen" in text
    assert "--best" in text


def test_after_a_kill_it_is_what_an_uninterrupted_run_has():
    """Killed after a better policy was kept than the checkpoint knows, and the run then
    takes another way: it must not keep a policy of the way that was lost."""
    whole = train("--steps=300", *WORSE)
    half = Path("half")
    model = small(actor_lr=0.3, name="half", out=".")
    stops = lambda e: e.step < 150  # noqa: E731
    model.learn(300, stops, **JUDGED)
    assert newest_checkpoint(model.run).name.startswith("update-000003")
    shutil.move(model.run, half)
    for file in FILES:  # of a policy that no checkpoint knows
        shutil.copy(whole / file, half / file)
    assert command("resume", half, "-n", 150).code == 0
    assert penfac.load(half).best_policy.about["step"] == best_of(half).step
    assert command("resume", half, "-n", 300).code == 0
    for file in FILES:
        assert (half / file).read_bytes() == (whole / file).read_bytes()


def test_a_run_of_an_earlier_version_has_none_until_it_goes_on():
    model = small().learn(50, **JUDGED)
    shutil.rmtree(model.run / "policy-best")
    with pytest.raises(ConfigError, match="has no policy-best; it was trained by an"):
        _ = model.best_policy
    done = command("eval", model.run, "--best")
    assert done.code == 2
    assert "has no policy-best" in done.line


def test_a_bundle_carries_it():
    run = train("--steps=300", "--seeds=2", *WORSE)
    assert command("runs", "pack", run, "kept").code == 0
    assert command("runs", "unpack", "kept", "--out=far").code == 0
    (far,) = Path("far/penfac").iterdir()
    for seed in ("seed-0", "seed-1"):
        for file in FILES:
            there = (far / seed / file).read_bytes()
            assert there == (run / seed / file).read_bytes()
    assert command("resume", far, "-n", 400).code == 0
    assert command("resume", run, "-n", 400).code == 0
    for seed in ("seed-0", "seed-1"):
        assert (far / seed / FILES[0]).read_bytes() == (
            run / seed / FILES[0]
        ).read_bytes()
