"""Draw the picture of PeNFAC and PPO in docs/ from results/learning, by `make pictures`."""

from pathlib import Path

from docs.measured import RESULTS, curves

from penfac import plots

PICTURE = Path(__file__).parent / "penfac-ppo.png"
TASKS = {  # panel -> file in results/learning; the same with -ppo has PPO's curves
    "RoboschoolHalfCheetah-v2": "halfcheetah",
    "RoboschoolHopper-v2": "hopper",
    "RoboschoolHumanoid-v2": "humanoid",
}


def panels() -> dict[str, dict[str, list[plots.Curve]]]:
    """Return the curves of both algorithms for each task that has a file for both."""
    return {
        task: {"PeNFAC": drawn(name), "PPO": drawn(f"{name}-ppo")}
        for task, name in TASKS.items()
        if (RESULTS / "learning" / f"{name}-ppo.csv").exists()
    }


def drawn(name: str) -> list[plots.Curve]:
    found = curves(f"learning/{name}")
    return [plots.Curve(seed, *curve) for seed, curve in found.items()]


if __name__ == "__main__":
    PICTURE.write_bytes(plots.comparison(panels()))
