"""Two studies of seconds that share an arm, and what runs them in this process."""

import json
import zlib
from pathlib import Path

from tests.studies.small_study import LQR, SETTINGS, small

from penfac.runs.folder import RunFolder
from penfac.settings.configs import to_values
from penfac.studies import runner
from penfac.studies.campaign import run
from penfac.studies.campaign.members import Member
from penfac.studies.campaign.run import Ask, CampaignOutcome
from penfac.studies.claims import Claim
from penfac.studies.runner import How
from penfac.studies.spec import Arm
from penfac.training.limits import Limits

HOME = Path("studies/both")
COLUMNS = "step,update,episode,mode,return,length,terminated"
NARROW = SETTINGS | {"sigma": 0.1}
FIRST = small(name="first")
SECOND = small(
    name="second",
    arms=(Arm("usual", settings=NARROW), Arm("far", settings=NARROW | {"lam": 0.5})),
    claims=(Claim("Far is better.", ("far above usual", "usual above far")),),
)


def members(seeds=(0, 1)) -> list[Member]:
    return [Member(FIRST, seeds), Member(SECOND, seeds)]


def run_both(
    listed=None, home: Path = HOME, ask: Ask | None = None, on: str = "local", said=None
) -> CampaignOutcome:
    """As `penfac study run` runs them, in the order that it plans."""
    ask, how, limits = ask or Ask(), How(on), Limits(command="penfac study run paper")
    listed = members() if listed is None else listed
    tell = ([] if said is None else said).append
    rows = run.plan_all(listed, home, how, limits, ask, tell)
    return run.run_all(rows, home, how, limits, ask, tell, lambda *_: None)


class Quick:
    """Runs in no time: an executor that writes what a run's content and seed decide."""

    def __init__(self, monkeypatch):
        self.ran: list[str] = []
        monkeypatch.setattr(runner, "execute", self)

    def __call__(self, folder, planned, how, limits, todo, poll, listener):
        for unit in todo:
            poll()
            config = unit.run.config
            unit.path.mkdir(parents=True, exist_ok=True)
            RunFolder(unit.path).write_json("config.json", config.to_document())
            values = json.dumps(to_values(config.settings), sort_keys=True)
            top = zlib.crc32(values.encode()) % 1000 + unit.seed
            rows = [
                f"{step},{k},0,mean,{top * k},5,0"
                for k, step in enumerate(range(0, config.steps + 1, config.eval_every))
            ]
            text = "\n".join([COLUMNS, *rows, ""])
            (unit.path / "evaluations.csv").write_text(text)
            ended = {"state": "finished", "exit_code": 0}
            (unit.path / "status.json").write_text(json.dumps(ended))
            self.ran.append(f"{folder.name} {unit}")
            yield unit, 0


def curves_file(arm: str, seed: int, study: str = "first", home: Path = HOME) -> Path:
    return home / study / LQR.replace("/", "-") / "penfac" / arm / f"seed-{seed}"
