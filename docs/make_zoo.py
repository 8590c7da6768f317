"""Make an entry of the zoo from a run: `python -m docs.make_zoo RUN NAME`."""

import argparse
import re
import shutil
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from penfac import zoo
from penfac.analysis.evaluate import evaluate_run, load_policy
from penfac.errors import ConfigError, PenfacError
from penfac.runs.config import FILE
from penfac.runs.folder import RunFolder
from penfac.runs.learners import learner_config
from penfac.runs.run import Run
from penfac.zoo import Entry

LARGEST = 1_000_000  # bytes of a policy: the wheel carries it


def make(
    run: Path, name: str, seed: int | None = None, best: bool = False,
    episodes: int = 100, note: str | None = None, home: Path = zoo.HOME,
) -> Path:  # fmt: skip
    """Copy a policy and its config, play it on new states, and write what it reached."""
    if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", name) is None:
        raise ConfigError(f"{name}: must have small letters, digits and - only")
    opened = Run.open(run)
    learner = opened.learner(seed)
    opened.refuse_changed()
    config = learner_config(opened.config, learner)
    if ":" in config.env or config.env.startswith("penfac-own/"):
        raise ConfigError(f"{run}: {config.env} exists in your program only")
    policy = load_policy(learner.path, best)
    size = len(policy.to_bytes())
    if size > LARGEST:
        raise ConfigError(f"{run}: its policy has {size:,} bytes, at most {LARGEST:,}")
    folder = home / name
    if folder.exists():
        raise ConfigError(f"{folder}: exists; remove it first")
    folder.mkdir(parents=True)
    try:
        target = RunFolder(folder)
        plain = replace(config, start_from=None, study=None, search=None, arm=None)
        target.write_json(FILE, plain.to_document())
        target.write_policy("policy", policy)
        (row,) = evaluate_run(folder, episodes)["seeds"]
        steps, mean, std = policy.about["step"], row["mean"], row["std"]
        what = (config.env, config.algo, steps, learner.seed, episodes, mean, std)
        entry = Entry(*what, best, config.command, note)
        target.write_json(zoo.FILE, msgspec.to_builtins(entry))
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m docs.make_zoo")
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("name", help="name of the entry, such as hopper-penfac")
    parser.add_argument(
        "--seed", type=int, help="seed of the policy; default: the first"
    )
    parser.add_argument(
        "--best", action="store_true", help="the best policy, not the last"
    )
    parser.add_argument(
        "--episodes", type=int, default=100, help="episodes; default 100"
    )
    parser.add_argument("--note", help="a sentence about the entry")
    try:
        print(make(**vars(parser.parse_args())))
    except PenfacError as error:
        sys.exit(f"make_zoo: {error}")
