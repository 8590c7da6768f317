"""Findings of a study that never ran: three arms in two environments, one seed failed,
one still running, one missing; all five verdicts."""

import base64
import copy
import math
from pathlib import Path

import numpy as np

STEPS = list(range(0, 1_000_001, 50_000))
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='hacked=1'>\"&"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30">'
    b'<rect width="90" height="30" style="fill:#5fa8d3"/></svg>'
)
FIGURES = {"curves.png": DOT, "curves.svg": SVG, "field.png": DOT}


def seed_of(seed: int, top: float, steps: list[int], state: str = "finished") -> dict:
    """A seed that learns towards `top` and says so at every step given."""
    noise = np.random.default_rng(seed + int(top)).normal(size=len(steps))
    returns = [
        top * (1 - math.exp(-s / 2e5)) + 12 + 60 * z
        for s, z in zip(steps, noise, strict=True)
    ]
    error = f"seed {seed}: diverged at {steps[-1] if steps else 0}"
    return {
        "seed": seed, "state": state, "error": error if state == "failed" else None,
        "steps": steps, "returns": returns,
    }  # fmt: skip


def summary(seeds: list[dict]) -> dict | None:
    ends = sorted(s["returns"][-1] for s in seeds if s["state"] == "finished")
    if not ends:
        return None
    n, mean = len(ends), float(np.mean(ends))
    std = float(np.std(ends, ddof=n > 1))
    stderr = std / math.sqrt(n)
    return {
        "n": n, "mean": mean, "std": std, "stderr": stderr,
        "iqm": float(np.mean(ends[n // 4 : n - n // 4])),
        "low": mean - 2 * stderr, "high": mean + 2 * stderr,
        "worst": ends[0], "best": ends[-1],
    }  # fmt: skip


def panel(env: str, tops: dict[str, float], count: int = 10) -> dict:
    arms = []
    for name, top in tops.items():
        seeds = [seed_of(k, top, STEPS) for k in range(count)]
        if name == "ppo":
            seeds[3] = seed_of(3, top, STEPS[:7], "failed")
            seeds[8] = seed_of(8, top, STEPS[:12], "running")
            seeds[9] = seed_of(9, top, [], "missing")
        arms.append({"arm": name, "seeds": seeds, "summary": summary(seeds)})
    return {"env": env, "arms": arms}


def comparison(env: str, text: str, verdict: str, **changes) -> dict:
    unknown = dict.fromkeys(
        ("difference", "low", "high", "p", "p_holm", "probability", "probability_low",
         "probability_high", "n")
    )  # fmt: skip
    known = {
        "difference": 812.0, "low": 500.0, "high": 1100.0, "p": 0.001, "p_holm": 0.003,
        "probability": 0.97, "probability_low": 0.8, "probability_high": 0.99,
        "n": [10, 10],
    }  # fmt: skip
    numbers = unknown if verdict == "not run" else known | changes
    return {
        "env": env, "text": text, "measure": "final", "verdict": verdict, **numbers
    }  # fmt: skip


def claim(words: str, verdict: str, reason: str, comparisons: list[dict]) -> dict:
    power = (
        "with 10 seeds an arm a difference of 1.3 standard deviations is seen 80 % of "
        "the time"
    )
    return {
        "words": words, "where": "Sec. 6.1, Figures 1-3", "verdict": verdict,
        "reason": reason, "power": power if comparisons else "", "seeds": 10,
        "budget": "10 of the paper's 60 seeds, 1,000,000 steps", "warnings": [],
        "sensitivity": "the verdict changes: holds by the final return" if comparisons
        else "", "comparisons": comparisons,
    }  # fmt: skip


CHEETAH, HOPPER = "RoboschoolHalfCheetah-v2", "RoboschoolHopper-v2"
WORSE = {
    "difference": -412.0, "low": -700.0, "high": -124.0, "p_holm": 0.0002,
    "probability": 0.12, "probability_low": 0.04, "probability_high": 0.3,
}  # fmt: skip
UNSURE = {
    "difference": 0.42, "low": -31.0, "high": 32.0, "p_holm": 0.61,
    "probability": 0.55, "probability_low": 0.3, "probability_high": 0.78,
}  # fmt: skip
CLAIMS = [
    claim(
        "PeNFAC outperforms DDPG and deterministic PPO during the testing phase.",
        "holds",
        "Every comparison is above zero after the correction for several tests.",
        [
            comparison(CHEETAH, "penfac above ppo", "holds"),
            comparison(CHEETAH, "penfac above ddpg", "holds", p_holm=0.0004),
            comparison(HOPPER, "penfac above ppo", "not shown", **UNSURE),
        ],
    ),
    claim(
        "DDPG learns fastest at first.",
        "contradicted",
        "At 200 000 steps DDPG is clearly below PeNFAC.",
        [comparison(CHEETAH, "ddpg above penfac", "contradicted", **WORSE)],
    ),
    claim(
        "Batch normalisation lowers the variance of the final scores.",
        "not shown",
        "The interval holds zero.",
        [comparison(HOPPER, "penfac above penfac without it", "not shown", **UNSURE)],
    ),
    claim(
        "The trust region helps.",
        "not tested",
        "0.42 (-31 to 32)",
        [comparison(HOPPER, "penfac above free", "not tested", **UNSURE)],
    )
    | {"warnings": ["beta above beta_min in penfac: in 2.0% of the updates"]},
    claim(
        "The gap grows with the number of actions.",
        "not run",
        "Humanoid was left out of this study.",
        [comparison("RoboschoolHumanoid-v1", "penfac above ddpg", "not run")],
    ),
]
SHARED = {
    "gamma": 0.99, "activation": "leaky_relu", "obs_clip": 5.0, "adam_b2": 0.999,
    "actor_hidden": [64, 64], "normalise": True, "seed_file": None,
}  # fmt: skip
ARMS = [
    {
        "name": "penfac", "algo": "penfac", "preset": "authors",
        "settings": {"sigma": 0.2}, "note": "",
        "config": SHARED | {"sigma": 0.2, "actor_lr": 1e-4, "lam": 0.9, "d_target": 0.03},
    },
    {
        "name": "ppo", "algo": "ppo", "preset": "authors", "settings": {},
        "note": "its mean is what is tested",
        "config": SHARED | {"sigma": 0.5, "actor_lr": 3e-4, "lam": 0.95},
    },
    {
        "name": "ddpg", "algo": "ddpg", "preset": "authors", "settings": {}, "note": "",
        "config": SHARED
        | {"sigma": 0.2, "actor_lr": 1e-4, "tau": 0.001, "buffer_size": 1_000_000},
    },
]  # fmt: skip


def example() -> dict:
    """A fresh copy each time: a test may change it."""
    return copy.deepcopy({
        "name": "fig2",
        "title": "PeNFAC, DDPG and deterministic PPO on HalfCheetah",
        "paper": "Figure 2",
        "question": "Does PeNFAC outperform DDPG and PPO where only the mean action is "
        "tested? And is it as quick to learn?",
        "fidelity": "authors",
        "command": "penfac study run fig2 --fidelity authors --seeds 10 -n 1e6",
        "folder": "studies/fig2-authors",
        "created": "2026-11-15T22:00:00+0000",
        "penfac": "0.1.0",
        "versions": {"jax": "0.10.2", "numpy": "2.3.1", "mujoco": "3.17.0"},
        "steps": 1_000_000,
        "env_steps": {},
        "eval_every": 50_000,
        "eval_episodes": 10,
        "seeds": list(range(10)),
        "cost": {"seconds": 5123.0, "steps": 12_000_000},
        "elsewhere": {"file": None, "runs": 0},
        "counts": {"finished": 54, "running": 2, "failed": 2, "missing": 2},
        "arms": ARMS,
        "panels": [
            panel(CHEETAH, {"penfac": 2034.0, "ppo": 1222.0, "ddpg": 900.0}),
            panel(HOPPER, {"penfac": 1500.0, "ppo": 1480.0, "ddpg": 700.0}),
        ],
        "claims": CLAIMS,
        "gaits": [],
        "acting": [],
    })  # fmt: skip


def hostile() -> dict:
    """The same with markup in every text that another program or a user wrote."""
    found = example()
    for key in (
        "title",
        "paper",
        "question",
        "fidelity",
        "command",
        "folder",
        "created",
    ):
        found[key] = HOSTILE
    found["versions"] = {HOSTILE: HOSTILE}
    for arm in found["arms"]:
        arm["note"] = arm["algo"] = HOSTILE
        arm["config"][HOSTILE] = HOSTILE
    found["arms"][0]["name"] = HOSTILE
    for own in found["panels"]:
        own["env"] = own["arms"][0]["arm"] = HOSTILE
        own["arms"][1]["seeds"][3]["error"] = HOSTILE
    for made in found["claims"]:
        for key in ("words", "where", "reason", "power", "budget"):
            made[key] = HOSTILE
        made["warnings"] = [HOSTILE]
        for each in made["comparisons"]:
            each["env"] = each["text"] = each["measure"] = HOSTILE
    found["gaits"] = [{"env": HOSTILE, "arm": HOSTILE, "file": "/nowhere/x.png"}]
    return found


def large(panels: int = 5, arms: int = 4, seeds: int = 60, points: int = 200) -> dict:
    """As many curves as a study of ours may ever have."""
    found = example()
    steps = [5000 * k for k in range(points)]
    names = [f"arm {k}" for k in range(arms)]
    found["arms"] = [ARMS[0] | {"name": name} for name in names]
    found["panels"] = []
    for p in range(panels):
        own = []
        for k, name in enumerate(names):
            lines = [seed_of(s, 1000.0 + 97 * k + p, steps) for s in range(seeds)]
            own.append({"arm": name, "seeds": lines, "summary": summary(lines)})
        found["panels"].append({"env": f"Environment-{p}", "arms": own})
    return found


def written(folder: Path, document: str, name: str = "page.html") -> Path:
    path = folder / name
    path.write_text(document, encoding="utf-8")
    return path
