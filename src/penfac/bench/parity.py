"""`penfac bench parity`: do our baselines learn as well as Stable-Baselines3's?

Both sides have the same environment, hyperparameters, networks, number of gradient
steps and initial states for evaluation. The result is Welch's interval of the
difference over many seeds.
"""

import importlib.util
import statistics
import time
from typing import Any

from penfac.bench.contest import HALFCHEETAH, PENDULUM
from penfac.bench.figures import Say
from penfac.bench.ours import our_score
from penfac.stats import welch

ALGOS = ("ppo", "ddpg", "td3", "sac")


def run(seeds: int, quick: bool, say: Say) -> dict[str, Any]:
    figures = []
    if importlib.util.find_spec("stable_baselines3") is None:
        missing = 'needs pip install "penfac[peers]"'
        figure = {
            "figure": "against Stable-Baselines3",
            "measured": missing,
            "aim": "-",
        }
        return {"figures": [figure]}
    from penfac.bench.peer import peer_score

    for race in (PENDULUM,) if quick else (PENDULUM, HALFCHEETAH):
        count = min(seeds, race.seeds)
        for algo in ALGOS:
            sides: dict[str, list[float]] = {"penfac": [], "SB3": []}
            for seed in range(count):
                for side, score in (("penfac", our_score), ("SB3", peer_score)):
                    started = time.perf_counter()
                    sides[side].append(score(algo, race, seed))
                    seconds = time.perf_counter() - started
                    say(
                        f"  {algo} {race.env} seed {seed}: {side} "
                        f"{sides[side][-1]:.1f} in {seconds:.0f} s"
                    )
            found = welch(sides["penfac"], sides["SB3"])
            means = {side: statistics.fmean(x) for side, x in sides.items()}
            figures.append(
                {
                    "figure": f"{algo} on {race.env}, {count} seeds each",
                    "measured": f"{means['penfac']:.1f} against {means['SB3']:.1f}; "
                    f"difference {found.difference:+.1f} "
                    f"[{found.low:+.1f}, {found.high:+.1f}], "
                    f"{found.low / found.pooled:+.2f} deviations at the low end",
                    "aim": "low end above -0.8 deviations" if race is PENDULUM else "-",
                    "scores": sides,
                }
            )
    return {"figures": figures}
