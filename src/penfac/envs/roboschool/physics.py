"""How MuJoCo is set up for the robots."""

from typing import NamedTuple


class Physics(NamedTuple):
    """How MuJoCo is set up: where published Roboschool policies walk best."""

    sub_step: float = 0.0165 / 4  # s
    contacts: int = 10  # at once, on MJX
    gravity: float = 9.8  # m / s^2
    # Bullet has neither armature nor damping, but without them a world may blow up
    armature: float = 0.01  # kg m^2
    damping: float = 0.1  # N m s / rad
    limit_time: float = 0.02  # s, how fast a joint limit pushes back
    contact_time: float = 0.01  # s, how fast the floor does; at least two sub-steps
    impedance: tuple[float, float, float] = (0.9, 0.99, 0.001)
    iterations: int = 10  # of Newton's method, at most: it stops when it has converged
    line_search: int = 20  # at most; with 8 the Humanoid blows up under random torques
    drag: float = 0.04  # Bullet's on every link: -0.04 m v (1 + |v|), and so the torque
    self_contact: bool = True
    # Bullet undoes so much of an overlap of two feet within one sub-step; softer, a
    # reset that puts them into each other (one in four) throws the legs apart less
    undo: float = 0.9
    firm: float = 0.99  # impedance of that; with 0.999 meeting limbs may blow up
    stop: float = (
        0.95  # ... of limits that only stop: random actions pay as they should
    )
