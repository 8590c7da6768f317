"""What a study found, from run folders whose numbers are known."""

import csv
import json
import shutil
import time
from pathlib import Path

import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.small_study import LQR, run_study, small
from tests.studies.study_folders import run_nothing, snapshot

from penfac.errors import CorruptFile
from penfac.runs.evaluations import read_curves
from penfac.studies import plan, progress, publish
from penfac.studies.claims import Claim
from penfac.studies.findings import findings
from penfac.studies.run_results import read_run
from penfac.studies.run_scores import score_lookup
from penfac.studies.spec import Arm

HOME = Path("study")
COLUMNS = ("step", "update", "episode", "mode", "return", "length", "terminated")
FILES = ("index.html", "report.md", "findings.json", "curves.csv")


def judged(path: Path, returns: list[float], modes=("mean",), episodes=2) -> None:
    """evaluations.csv as training leaves it: two episodes a point, one above and one
    below its mean; another mode is worth 1 less each time."""
    with open(path / "evaluations.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for k, mean in enumerate(returns):
            for less, mode in enumerate(modes):
                for episode in range(episodes):
                    value = mean - less + (0.5 - episode % 2) * (episodes > 1)
                    writer.writerow([10 * k, k, episode, mode, value, 5, 0])


def ended(path: Path, state: str = "finished", code: int = 0, error=None) -> None:
    told = {"state": state, "exit_code": code, "error": error}
    (path / "status.json").write_text(json.dumps(told))


def begun(monkeypatch, study=None, seeds=(0, 1, 2)) -> dict[tuple[str, int], Path]:
    """The folders of a study without a run, by arm and seed."""
    with monkeypatch.context() as patch:
        run_nothing(patch)
        run_study(HOME, study, seeds=seeds)
    units = plan.units(HOME, plan.read_plan(HOME))
    return {(unit.arm, unit.seed): unit.path for unit in units}


def finished(monkeypatch, returns: dict[tuple[str, int], list[float]], **given):
    paths = begun(monkeypatch, **given)
    for who, curve in returns.items():
        judged(paths[who], curve)
        ended(paths[who])
    return paths


def look():
    return score_lookup([read_run(u) for u in plan.units(HOME, plan.read_plan(HOME))])


def scores(arm: str, measure: str, mode: str = "mean") -> dict[int, float]:
    from penfac.studies.claims import Side

    return look()(LQR, Side(arm, mode), measure)


def curve_of(found: dict, arm: str) -> dict:
    (panel,) = found["panels"]
    return next(a for a in panel["arms"] if a["arm"] == arm)


# --- scores ------------------------------------------------------------------------------

RAMP = [float(k) for k in range(21)]  # 0 to 20 in 21 evaluations


def test_scores_of_a_curve_that_is_known(monkeypatch):
    """Steps 0 to 200, a return that rises by 1 every 10 of them."""
    finished(monkeypatch, {("wide", 0): RAMP})
    assert scores("wide", "initial") == {0: 0.0}
    assert scores("wide", "final") == {0: pytest.approx(19.0)}  # of 18, 19 and 20
    assert scores("wide", "area") == {0: pytest.approx(10.0)}
    assert scores("wide", "early") == {0: pytest.approx(2.5)}  # of 0 to 5


def test_a_failed_seed_counts_with_the_worst_of_its_arm(monkeypatch):
    """Also one that was never judged; its first return is only counted where it is."""
    paths = finished(
        monkeypatch, {("wide", 0): [1.0, 8.0], ("wide", 1): [2.0, 5.0]}, seeds=(0, 1, 2, 3)
    )  # fmt: skip
    judged(paths["wide", 2], [3.0, 9.0])
    ended(paths["wide", 2], "failed", 4, "NaN in the critic")
    ended(paths["wide", 3], "failed", 3, "the motor burned")
    assert scores("wide", "final") == {0: 8.0, 1: 5.0, 2: 5.0, 3: 5.0}
    assert scores("wide", "initial") == {0: 1.0, 1: 2.0, 2: 3.0}
    found = findings(HOME)
    told = {seed["seed"]: seed for seed in curve_of(found, "wide")["seeds"]}
    assert told[2]["state"] == "failed"
    assert told[2]["error"] == "NaN in the critic"
    assert told[2]["returns"] == [3.0, 9.0]
    assert curve_of(found, "wide")["summary"]["n"] == 4
    assert found["counts"] == {"finished": 2, "running": 0, "failed": 2, "missing": 4}


def test_a_failed_seed_that_is_itself_the_worst(monkeypatch):
    paths = finished(monkeypatch, {("wide", 0): [0.0, 8.0]})
    judged(paths["wide", 1], [0.0, -50.0])
    ended(paths["wide", 1], "failed", 4, "NaN")
    assert scores("wide", "final") == {0: 8.0, 1: -50.0}


def test_an_arm_whose_seeds_all_failed_unjudged_has_no_score(monkeypatch):
    paths = begun(monkeypatch)
    for seed in (0, 1, 2):
        ended(paths["wide", seed], "failed", 3, "the motor burned")
    assert scores("wide", "final") == {}
    found = findings(HOME)
    assert curve_of(found, "wide")["summary"] is None
    assert found["claims"][0]["verdict"] == "not run"


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_run_on_its_way_is_shown_but_has_no_score(state, monkeypatch):
    paths = finished(monkeypatch, {("wide", 0): [0.0, 8.0]})
    judged(paths["wide", 1], [0.0, 100.0])
    ended(paths["wide", 1], state, None)
    assert scores("wide", "final") == {0: 8.0}
    found = findings(HOME)
    assert found["counts"]["running"] == 1
    assert curve_of(found, "wide")["seeds"][1]["returns"] == [0.0, 100.0]


def test_ppo_is_judged_in_both_its_modes(monkeypatch):
    arms = (Arm("ppo", "ppo"),)
    claims = (Claim("c", ("ppo not below ppo[sampled]",)),)
    paths = begun(monkeypatch, small(arms=arms, claims=claims))
    for k, path in enumerate(paths.values()):
        judged(path, [0.0, 5.0 + k], modes=("mean", "sampled"))
        ended(path)
    assert scores("ppo", "final") == {0: 5.0, 1: 6.0, 2: 7.0}
    assert scores("ppo", "final", "sampled") == {0: 4.0, 1: 5.0, 2: 6.0}
    (row,) = findings(HOME)["claims"][0]["comparisons"]
    assert (row["difference"], row["verdict"], row["n"]) == (1.0, "holds", [3, 3])


def test_learning_nothing_where_a_seed_failed_before_it_was_judged(monkeypatch):
    """It has an end, the worst of its arm, but no beginning to compare it with."""
    claims = (Claim("c", ("wide learns nothing",)),)
    paths = finished(
        monkeypatch, {("wide", 0): [0.0, 1.0]}, study=small(claims=claims)
    )  # fmt: skip
    ended(paths["wide", 1], "failed", 3, "the motor burned")
    assert findings(HOME)["claims"][0]["verdict"] == "not run"


def test_what_it_cost(monkeypatch):
    """Seconds of every process that worked on a run: elapsed_s begins anew in each."""
    paths = finished(monkeypatch, {("wide", 0): [0.0, 1.0], ("narrow", 1): RAMP})
    for who, elapsed in ((("wide", 0), [1.0, 4.0, 2.0, 3.0]), (("narrow", 1), [0.5])):
        lines = [f"{k},{10 * k},{s}" for k, s in enumerate(elapsed)]
        text = "\n".join(["update,step,elapsed_s", *lines, ""])
        (paths[who] / "timing.csv").write_text(text)
    assert findings(HOME)["cost"] == {"seconds": 7.5, "steps": 10 + 200}


# --- files -------------------------------------------------------------------------------

HEADER = ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    "data",
    [b"\n", b"step,mode\n", b"\xff\xfe\n", f"{HEADER}1,2\n", f"{HEADER}a,0,0,mean,1,5,0\n",
     f"{HEADER}0,0,0,mean,much,5,0\n", f"{HEADER}0,0,0,mean,nan,5,0\n",
     f"{HEADER}0,0,0,mean,inf,5,0\n"],
)  # fmt: skip
def test_a_table_that_penfac_did_not_write_is_a_corrupt_file(data, monkeypatch):
    paths = finished(monkeypatch, {("wide", 0): RAMP})
    file = paths["wide", 1] / "evaluations.csv"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(CorruptFile, match="not a table that penfac wrote") as error:
        findings(HOME)
    assert error.value.exit_code == 5
    for verb in ("status", "report"):
        result = command("study", verb, HOME)
        assert result.code == 5
        assert str(file) in result.line
    assert not (HOME / "report").exists()


@pytest.mark.parametrize("text", ["update,step\n1,2\n", "elapsed_s\nlong\n", "\n"])
def test_a_timing_that_penfac_did_not_write_is_a_corrupt_file(text, monkeypatch):
    paths = finished(monkeypatch, {("wide", 0): RAMP})
    (paths["wide", 0] / "timing.csv").write_text(text)
    with pytest.raises(CorruptFile, match=r"timing\.csv"):
        findings(HOME)


@pytest.mark.parametrize("torn", ["", "step,upd", f"{HEADER}0,0,0,me"])
def test_a_line_that_was_never_finished_is_left_out(torn, tmp_path):
    (tmp_path / "evaluations.csv").write_text(torn)
    assert read_curves(tmp_path) == {}


# --- the report --------------------------------------------------------------------------


def strict(data: bytes):
    """JSON as the standard has it."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(data, parse_constant=refuse)


def reported() -> dict[str, bytes]:
    found = findings(HOME)
    files = publish.publish(found, HOME / "report")
    assert files[0] == HOME / "report" / "index.html"
    return {file.name: file.read_bytes() for file in files}


def test_a_report_of_a_study_without_a_run(monkeypatch):
    begun(monkeypatch)
    files = reported()
    assert set(FILES) <= files.keys()
    assert strict(files["findings.json"])["counts"]["missing"] == 6
    assert files["curves.csv"] == b"env,arm,seed,step,return\n"
    assert b"not run" in files["index.html"]


def test_a_report_is_the_same_bytes_again(monkeypatch):
    """Half of it finished, one failed; the report reads the runs and changes none."""
    returns = {(arm, s): [s, 3.0 * s + (arm == "wide")] for arm in ("wide", "narrow")
               for s in (0, 1)}  # fmt: skip
    paths = finished(monkeypatch, returns)
    ended(paths["wide", 2], "failed", 4, "NaN <in> the critic")
    before = snapshot(HOME)
    first = reported()
    assert reported() == first
    assert {k: v for k, v in snapshot(HOME).items() if "report" not in k} == before
    assert set(FILES) < first.keys()
    assert any(name.endswith(".png") for name in first)
    found = strict(first["findings.json"])
    assert found["counts"] == {"finished": 4, "running": 0, "failed": 1, "missing": 1}
    rows = list(csv.DictReader(first["curves.csv"].decode().splitlines()))
    assert len(rows) == 8
    assert rows[1] == {
        "env": LQR, "arm": "wide", "seed": "0", "step": "10", "return": "1",
    }  # fmt: skip
    assert b"NaN &lt;in&gt; the critic" in first["index.html"]
    assert b"NaN" in first["report.md"]


def test_seeds_that_all_end_the_same_make_no_number_that_is_none(monkeypatch):
    """No spread at all: p, intervals and probabilities are numbers still."""
    lines = ("wide above narrow", "wide level with narrow", "wide learns nothing")
    study = small(claims=tuple(Claim(line, (line,)) for line in lines))
    same = {(arm, s): [1.0, 1.0] for arm in ("wide", "narrow") for s in (0, 1, 2)}
    finished(monkeypatch, same, study=study)
    found = strict(reported()["findings.json"])
    assert found["claims"][0]["verdict"] == "not shown"


def test_standing_counts_steps_and_returns(monkeypatch):
    paths = finished(monkeypatch, {("wide", 0): [0.0] * 30 + [4.0]})
    judged(paths["wide", 2], [0.0] * 15 + [8.0])
    ended(paths["wide", 2], "running", None)
    told = progress.read_progress(HOME)
    wide, narrow = told["arms"]
    assert (told["runs"], told["finished"], told["running"], told["missing"]) == (
        6,
        1,
        1,
        4,
    )
    assert wide["steps"] == pytest.approx((300 + 150 + 0) / 900)
    assert (wide["return"], wide["std"]) == (6.0, pytest.approx(8**0.5))
    assert (narrow["return"], narrow["std"], narrow["steps"]) == (None, None, 0)


# --- what acted --------------------------------------------------------------------------

RESTS = Claim("c", ("wide above narrow",), needs=("wide: beta above beta_min",))


def learned(path: Path, betas: list[float]) -> None:
    """progress.csv with beta alone."""
    lines = [f"{k},{beta}" for k, beta in enumerate(betas, 1)]
    (path / "progress.csv").write_text("\n".join(["update,beta", *lines, ""]))


def with_betas(monkeypatch, betas: dict[int, list[float]], **given):
    """Wide is clearly above narrow; its beta was so in each seed."""
    returns = {("wide", s): [0.0] * 30 + [50.0 + s] for s in (0, 1, 2)}
    returns |= {("narrow", s): [0.0] * 30 + [1.0 + s] for s in (0, 1, 2)}
    study = small(claims=(RESTS,))
    paths = finished(monkeypatch, returns, study=study, **given)
    for seed, own in betas.items():
        learned(paths["wide", seed], own)
    return paths


FLOOR = 0.009999999776482582  # 0.01 as progress.csv has it
IDLE = {s: [1.0] + [FLOOR] * 19 for s in (0, 1, 2)}  # 5 % of the updates


def test_a_trust_region_that_never_acted_is_not_tested(monkeypatch):
    with_betas(monkeypatch, IDLE)
    found = findings(HOME)
    (claim,) = found["claims"]
    assert claim["verdict"] == "not tested"
    assert "in 5.0% of the updates" in claim["warnings"][0]
    files = reported()
    for name in ("index.html", "report.md"):
        assert b"not tested" in files[name]
        assert b"5.0% of the updates" in files[name]
    rows = list(csv.DictReader(files["acting.csv"].decode().splitlines()))
    assert [(r["arm"], r["seed"], r["share"]) for r in rows] == [
        ("wide", str(s), "0.05") for s in (0, 1, 2)
    ]


def test_a_trust_region_that_acted_is_judged(monkeypatch):
    with_betas(monkeypatch, {s: [FLOOR, 0.08] for s in (0, 1, 2)})
    (claim,) = findings(HOME)["claims"]
    assert (claim["verdict"], claim["warnings"]) == ("holds", [])


def test_curves_alone_do_not_tell_what_acted(monkeypatch):
    """Said, not guessed; acting.csv beside them tells."""
    with_betas(monkeypatch, IDLE)
    files = reported()
    Path("curves.csv").write_bytes(files["curves.csv"])
    shutil.rmtree(HOME)
    begun(monkeypatch, small(claims=(RESTS,)))
    (claim,) = findings(HOME, elsewhere=Path("curves.csv"))["claims"]
    assert claim["verdict"] == "holds"
    assert "not known" in claim["warnings"][0]
    Path("acting.csv").write_bytes(files["acting.csv"])
    (claim,) = findings(HOME, elsewhere=Path("curves.csv"))["claims"]
    assert claim["verdict"] == "not tested"


@pytest.mark.parametrize("column", ["beta_min", "bet", "update"])
def test_a_progress_that_lacks_what_a_claim_rests_on_is_corrupt(column, monkeypatch):
    paths = with_betas(monkeypatch, {})
    (paths["wide", 0] / "progress.csv").write_text(f"step,{column}\n1,2\n")
    with pytest.raises(CorruptFile, match="has no numeric column beta"):
        findings(HOME)


def test_a_verdict_that_depends_on_what_of_the_curve_counts(monkeypatch):
    """Wide is ahead all the way, and level at the end."""
    returns = {
        (arm, seed): [0.0, 10.0 * (arm == "wide") + seed, 12.0 + seed]
        for arm in ("wide", "narrow")
        for seed in range(6)
    }
    finished(monkeypatch, returns, seeds=tuple(range(6)))
    (claim,) = findings(HOME)["claims"]
    assert claim["by_measure"] == {"final": "not shown", "area": "holds"}
    assert claim["verdict"] == "not shown"  # the claim is about the final return
    told = "the verdict changes: not shown by the final return, holds over the whole"
    assert claim["sensitivity"].startswith(told)


def test_a_claim_about_the_beginning_has_no_whole_curve(monkeypatch):
    early = Claim("Wide is better at first.", ("wide above narrow",), measure="early")
    finished(monkeypatch, LONG, study=small(claims=(early,)))
    (claim,) = findings(HOME)["claims"]
    assert (claim["by_measure"], claim["sensitivity"]) == ({}, "")


def test_a_verdict_carries_its_budget(monkeypatch):
    study = small(paper_seeds=60, paper_steps=20_000_000)
    finished(monkeypatch, LONG, study=study)
    (claim,) = findings(HOME)["claims"]
    told = "3 of the paper's 60 seeds, 300 of the authors' 20,000,000 steps"
    assert claim["budget"] == told
    files = reported()
    assert told.encode() in files["report.md"]
    assert b"3 of the paper&#x27;s 60 seeds" in files["index.html"]


# --- runs that are elsewhere -------------------------------------------------------------

LONG = {  # 31 evaluations, to the end of the 300 steps
    (arm, s): [k * (s + 1.0) + 9 * (arm == "wide") for k in range(31)]
    for arm in ("wide", "narrow")
    for s in (0, 1, 2)
}


def moved_away(monkeypatch, returns) -> Path:
    """The curves.csv of a study whose folder is gone."""
    finished(monkeypatch, returns)
    file = Path("curves.csv")
    file.write_bytes(reported()["curves.csv"])
    shutil.rmtree(HOME)
    return file


def test_two_halves_of_a_study_are_the_whole(monkeypatch):
    file = moved_away(monkeypatch, LONG)
    finished(monkeypatch, LONG)
    whole = findings(HOME)
    shutil.rmtree(HOME)
    finished(monkeypatch, {w: r for w, r in LONG.items() if w[1] > 0}, seeds=(1, 2))
    both = findings(HOME, elsewhere=file)
    assert both["elsewhere"] == {"file": "curves.csv", "runs": 2}
    assert both["seeds"] == [0, 1, 2]
    for key in ("counts", "claims"):
        assert both[key] == whole[key]
    for arm in ("wide", "narrow"):
        ours, theirs = (curve_of(found, arm) for found in (both, whole))
        assert ours["summary"] == theirs["summary"]
        by_seed = sorted(ours["seeds"], key=lambda told: told["seed"])
        assert by_seed == theirs["seeds"]
    # what was spent elsewhere is not known, and the page says where it is from
    assert both["cost"]["steps"] == 4 * 300
    files = publish.publish(both, HOME / "report")
    assert all("2 runs, whose cost is not counted" in f.read_text() for f in files[:2])


def test_every_way_to_be_judged_is_kept_elsewhere_too(monkeypatch):
    """Other modes have a column each, empty where an arm is not judged so; curves.csv and
    the runs themselves give the same scores."""
    modes = ("mean", "mean-of-15", "sampled")
    line = "ppo above ppo[mean-of-15]"
    learner = Arm("ppo", "ppo", settings={"worlds": 1, "steps_per_world": 64})
    study = small(arms=(learner, small().arms[1]), claims=(Claim("", (line,)),))
    long = {("ppo" if arm == "wide" else arm, s): r for (arm, s), r in LONG.items()}
    paths = finished(monkeypatch, long, study=study)
    for seed in (0, 1, 2):
        judged(paths["ppo", seed], long["ppo", seed], modes)
    whole, text = findings(HOME), reported()["curves.csv"].decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert rows[1] == {
        "env": LQR, "arm": "ppo", "seed": "0", "step": "10",
        "return": "10", "mean-of-15": "9", "sampled": "8",
    }  # fmt: skip
    narrow = [r for r in rows if r["arm"] == "narrow"]
    assert {r["mean-of-15"] + r["sampled"] for r in narrow} == {""}
    Path("curves.csv").write_text(text)
    shutil.rmtree(HOME)
    begun(monkeypatch, study=study)
    again = findings(HOME, elsewhere=Path("curves.csv"))
    assert again["panels"] == whole["panels"]
    assert again["claims"] == whole["claims"]


def test_curves_of_before_hold_the_mean(monkeypatch):
    """A file without the columns of other modes."""
    lines = [f"{LQR},wide,0,{step},{step / 10}" for step in range(0, 301, 10)]
    Path("curves.csv").write_text("\n".join(["env,arm,seed,step,return", *lines, ""]))
    begun(monkeypatch)
    found = findings(HOME, elsewhere=Path("curves.csv"))
    told = {s["seed"]: s for s in curve_of(found, "wide")["seeds"]}[0]
    assert told["returns"] == [float(k) for k in range(31)]
    assert told["modes"] == {}


def test_what_finished_here_counts_and_what_never_finished_does_not(monkeypatch):
    short = {("narrow", 1): LONG["narrow", 1][:20]}
    file = moved_away(monkeypatch, {**LONG, **short})
    paths = finished(monkeypatch, {("wide", 0): [1.0] * 31}, seeds=(0, 1))
    judged(paths["narrow", 0], [5.0])
    ended(paths["narrow", 0], "running", None)
    ended(
        paths["wide", 1], "failed", 4, "NaN"
    )  # that it did not fail there hides nothing
    found = findings(HOME, elsewhere=file)
    (wide, narrow) = (
        {s["seed"]: s for s in curve_of(found, a)["seeds"]} for a in ("wide", "narrow")
    )
    assert wide[0]["returns"] == [1.0] * 31
    assert narrow[0]["returns"] == LONG["narrow", 0]
    assert [narrow[s]["state"] for s in (0, 1, 2)] == [
        "finished",
        "missing",
        "finished",
    ]
    assert wide[1]["state"] == "failed"
    assert found["counts"] == {"finished": 4, "running": 0, "failed": 1, "missing": 1}


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (None, 2, "no such file"),
        ("", 5, "not a curves.csv"),
        ("env,arm,seed,step,return\n", 5, "not a curves.csv"),
        ("seed,step,return\n0,0,1\n", 5, "not a curves.csv"),
        (f"env,arm,seed,step,return\n{LQR},wide,0,0,nan\n", 5, "not a curves.csv"),
        (f"env,arm,seed,step,return\n{LQR},wide,0\n", 5, "not a curves.csv"),
        (f"env,arm,seed,step,return\n{LQR},other,0,0,1\n", 2, "another study"),
    ],
)
def test_curves_that_are_none_are_refused(monkeypatch, text, code, told):
    begun(monkeypatch)
    if text is not None:
        Path("curves.csv").write_text(text)
    before = snapshot(HOME)
    done = command("study", "report", str(HOME), "--with", "curves.csv")
    assert (done.code, done.out) == (code, "")
    assert told in done.line
    assert snapshot(HOME) == before


@pytest.mark.slow
def test_a_large_study_is_read_drawn_and_told_in_seconds(monkeypatch):
    """20 arms x 60 seeds x 200 evaluations x 5 episodes."""
    arms = tuple(Arm(f"a{k}", settings={"sigma": 0.1 + k / 100}) for k in range(20))
    claims = tuple(Claim(f"c{k}", (f"a{k} above a0",)) for k in range(1, 20))
    study = small(arms=arms, claims=claims, steps=2000)
    paths = begun(monkeypatch, study, seeds=tuple(range(60)))
    for k, path in enumerate(paths.values()):
        judged(path, [float((7 * k + i) % 97 + i) for i in range(200)], episodes=5)
        ended(path)
    began = time.process_time()
    files = reported()
    spent = time.process_time() - began
    assert strict(files["findings.json"])["counts"]["finished"] == 1200
    assert spent < 10, f"{spent:.1f} s"
