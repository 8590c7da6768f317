"""The ids. OpenAI's v1 ran on Bullet; v2 is the same task on MuJoCo."""

from gymnasium.envs.registration import register, registry

THRESHOLDS = {  # task -> the return that Roboschool calls solved
    "Hopper": 2500, "Walker2d": 2500, "HalfCheetah": 3000, "Ant": 2500, "Humanoid": 3500,
    "InvertedPendulum": 950, "InvertedPendulumSwingup": 800,
}  # fmt: skip
HORIZON = 1000
IDS = {f"Roboschool{task}-v2": task for task in THRESHOLDS}


def register_roboschool() -> None:
    for env_id, task in IDS.items():
        if env_id not in registry:
            register(
                id=env_id,
                entry_point="penfac.envs.roboschool.env:RoboschoolEnv",
                vector_entry_point="penfac.envs.roboschool.vector_env:RoboschoolVectorEnv",
                max_episode_steps=HORIZON,
                reward_threshold=THRESHOLDS[task],
                kwargs={"task": task},
            )
