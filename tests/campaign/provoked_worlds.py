"""The faults of the table that environments bring, and those of commands and exports."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tests.campaign import kills, signals
from tests.campaign.bases import learned_by, left
from tests.campaign.case import changed, must
from tests.campaign.commands import command, well
from tests.campaign.own_env import ENV
from tests.campaign.provocations import RUN, learn, refused, states
from tests.faults.test_bad_input import NONSENSE


def fault(name: str, *words: str, code: int | tuple = 3, more: tuple = ()) -> None:
    """An environment gets this code; the next one gets a folder of its own."""
    refused(code, learn(f"--out=runs-{name}", *more, env=f"{name}-v0"), *words)


def fine(name: str, *more: str) -> Path:
    well(learn(f"--out=runs-{name}", *more, env=f"{name}-v0"))
    return Path(f"runs-{name}") / "penfac" / "run"


def env_building(here: Path) -> None:
    fault("RaisesBuilding", "no licence for this robot")


def env_raising(here: Path) -> None:
    fault("RaisesStepping", "the motor burned and the gearbox")
    fault("RaisesResetting", "the gripper is stuck")
    document = json.loads(
        (Path("runs-RaisesStepping/penfac/run") / "fault.json").read_text()
    )
    must({"error", "action"} <= document.keys(), f"fault.json holds {document.keys()}")
    fine("RaisesOnce", f"--env-arg=path={here / 'once'}", "--env-restarts=1")


def env_hanging(here: Path) -> None:
    fault("Hangs", "--env-timeout", more=("--env-timeout=2s",))


def env_crashing(here: Path) -> None:
    """It crashes once; the same command line, resumed, ends as if it had not."""
    ended = learn(env="RogueCrashesOnce-v0")
    must(ended.code == -signal.SIGSEGV, f"exit {ended.code}: {ended.err[-300:]}")
    well(command("resume", RUN))
    well(learn("--out=whole", env="RogueCrashesOnce-v0"))
    one, other = left(RUN), left(Path("whole/penfac/run"))
    must(one == other, "other bytes", "lost")


def env_nan(here: Path) -> None:
    fault("NanAtReset", "observation[1] is nan at reset")
    fault("NanAtStep", "observation[2] is nan after step 4")
    fault("InfAtStep", "observation[1] is -inf after step 4")
    fault("NanInFinal", "observation[0] is nan after step 9")


def env_reward(here: Path) -> None:
    fault("NanReward", "reward is nan")
    fault("InfReward", "reward is -inf")
    fault("HugeReward", code=4)


def env_reward_types(here: Path) -> None:
    for name in ("ArrayReward", "ScalarArrayReward", "IntReward"):
        fine(name)
    for name in ("NoneReward", "BoolReward", "WordReward", "TwoRewards"):
        fault(name, "it must be a number")


def env_observation(here: Path) -> None:
    fault("WrongShape", "(4,)", "(3,)")
    fault("ListObservation", "not an array")
    reused, plain = learned_by(fine("ReusedBuffer")), learned_by(fine("Plain"))
    must(reused == plain, f"a reused buffer changes {changed(plain, reused)}", "silent")


def env_dict(here: Path) -> None:
    fault("Dictionary", "--flatten-obs", code=2)
    fault("Tuple", code=2)
    fine("Dictionary", "--flatten-obs")


def env_discrete(here: Path) -> None:
    fault("Discrete", code=2)
    fault("MultiDiscrete", code=2)


def env_bounds(here: Path) -> None:
    fault("Unbounded", "--action-bounds", code=2)
    for name in ("HalfBounded", "NoRoom", "NanBounds"):
        fault(name, code=2)


def env_actions(here: Path) -> None:
    """The environments themselves refuse an action that is not legal."""
    for name in ("Asymmetric", "Shaped", "Scalar"):
        fine(name, "--set=sigma=5")


def env_one_step(here: Path) -> None:
    fine("OneStep")


def env_endless(here: Path) -> None:
    fault("Endless", "--max-episode-steps", code=2)


def env_no_reward(here: Path) -> None:
    run = fine("ZeroReward")
    for name, array in load_file(
        max(run.glob("checkpoints/*/state.safetensors"))
    ).items():
        must(
            array.dtype.kind != "f" or np.isfinite(array).all(), f"{name} is not finite"
        )


def divergence(here: Path) -> None:
    ended = learn("--set=critic_lr=1e30", "--set=actor_lr=1e30")
    refused(4, ended)
    for file in states():
        for name, array in load_file(file).items():
            finite = array.dtype.kind != "f" or np.isfinite(array).all()
            must(finite, f"{name} of {file} is not finite", "lost")


def evaluation_raises(here: Path) -> None:
    ended = learn(
        "--set=min_steps_per_update=50", "--eval-episodes=9", env="RaisesStepping-v0"
    )
    refused(3, ended, "the motor burned")


# --- asked to stop -------------------------------------------------------------------------


def interrupted(here: Path) -> None:
    stopped("SIGINT", here)


def terminated(here: Path) -> None:
    stopped("SIGTERM", here)


def stopped(name: str, here: Path) -> None:
    signals.prepare(here)
    for k, provoke in enumerate((signals.saving, signals.twice)):
        place = here / f"place-{k}"
        place.mkdir()
        os.chdir(place)
        more = (3,) if provoke is signals.saving else ()
        partial(provoke, here, name, *more)(place)


# --- commands ------------------------------------------------------------------------------


def unknown_env(here: Path) -> None:
    refused(2, command("train", "--env", "Pendulun-v1"), "Pendulum-v1")


def seed_twice(here: Path) -> None:
    refused(2, command("train", "--env", ENV, "--seeds", "3,5,3"), "listed twice")
    must(not Path("runs").exists(), "a folder was made")


def seeds_unnamed(here: Path) -> None:
    for words in (["--seeds", "random"], ["--seed", str(2**32)], ["--seeds", "0-"]):
        refused(2, command("train", "--env", ENV, *words), words[1])


def nonsense(here: Path) -> None:
    for options, words in NONSENSE:
        ended = command("train", "--env", "Pendulum-v1", *options)
        refused(2, ended, *words)
        must(not Path("runs").exists(), f"{options}: a folder was made")


# --- exports -------------------------------------------------------------------------------


def exported(here: Path) -> None:
    """The ONNX file acts as the policy does, on states that no training saw."""
    import onnxruntime

    from penfac.policy import Policy

    well(learn())
    well(command("export", RUN, "--onnx", "x.onnx"))
    session = onnxruntime.InferenceSession("x.onnx")
    policy = Policy.load(RUN)
    obs = np.random.default_rng(0).normal(size=(1000, 3), scale=100).astype(np.float32)
    name = session.get_inputs()[0].name
    theirs = np.asarray(session.run(None, {name: obs})[0]).reshape(1000, -1)
    ours = np.stack([policy(row) for row in obs]).reshape(1000, -1)
    off = float(np.abs(theirs - ours).max())
    must(off < 1e-5, f"they differ by {off}")


def half_export(here: Path) -> None:
    well(learn())
    ended = command("export", RUN, "--onnx", "x.onnx", arm=partial(small_files, 300))
    refused(7, ended)
    must(not list(here.glob("*x.onnx*")), "half a file is left", "stray")


def small_files(most: int) -> None:
    import resource

    kills.jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
