"""Run a learned policy in a control loop. Needs numpy and safetensors, not JAX.

    python examples/deploy_policy.py RUN [SECONDS]

RUN is a run of examples/train_own_env.py, its policy folder, or the file in it. The plant
is the same mass on a rail; replace it by your sensors and motors.
"""

import sys

import numpy as np

from penfac import Policy

DT = 0.1


def main(run: str, seconds: float) -> None:
    policy = Policy.load(run)  # refuses a damaged file (sha256)
    print(f"learned on {policy.about['environment']}, {policy.about['step']} steps")
    position, speed = 0.8, 0.0
    for tick in range(round(seconds / DT)):
        observation = np.array([position, speed], np.float32)
        (force,) = policy(observation)  # in the environment's own units and bounds
        speed += DT * float(force)
        position += DT * speed
        if tick % 10 == 0:
            time = tick * DT
            print(f"t={time:4.1f}  position {position:+.3f}  force {force:+.3f}")
    print(f"final position {position:+.4f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)
