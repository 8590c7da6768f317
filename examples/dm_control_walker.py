"""Train on a task of the DeepMind Control Suite through Shimmy's Gymnasium ids.

    pip install "shimmy[dm-control]"
    python examples/dm_control_walker.py [STEPS] [OUT]

The observation is a dict: `flatten_obs` joins its parts. An episode ends after 1000 steps,
but the spec does not say so: `max_episode_steps` does. The same as a command:

    penfac train --env shimmy:dm_control/walker-walk-v0 --flatten-obs --max-episode-steps 1000
"""

import sys

import penfac


def main(steps: int, out: str) -> None:
    model = penfac.PeNFAC(
        "shimmy:dm_control/walker-walk-v0",
        flatten_obs=True,
        max_episode_steps=1000,
        out=out,
    )
    model.learn(steps, progress_bar=True, eval_episodes=3)
    result = model.evaluate(5)
    print(f"return {result['mean']:.1f} +- {result['std']:.1f}   run: {model.run}")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000,
        sys.argv[2] if len(sys.argv) > 2 else "runs",
    )
