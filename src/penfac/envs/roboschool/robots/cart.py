"""The cart and its pole."""

from penfac.envs.roboschool.robots.parts import ORIGIN, Body, Capsule, Robot

PENDULUM = Robot(
    "InvertedPendulum",
    "slider",
    (
        Body(
            "cart", "world", 10.47198, ORIGIN, (0.069813, 0.174533, 0.174533),
            (Capsule((-0.1, 0, 0), (0.1, 0, 0), 0.1),),
        ),
        Body(
            "pole", "cart", 5.01859, (0.0005, 0, 0.3), (0.26639, 0.26654, 0.026651),
            (Capsule(ORIGIN, (0.001, 0, 0.6), 0.049),),
        ),
    ),
)  # fmt: skip
