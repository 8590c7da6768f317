"""MDPs with continuous actions in which a Gaussian policy has closed forms.

n states; p_s(a) = (1 + sin(w_s.a + f_s)) / 2 and R(s, a) = r_s + z_s sin(w_s.a + x_s).
From s the next state is drawn from far[s] with probability p_s(a), else from near[s].
A sine averages to exp(-|w|^2 sigma^2 / 2) times itself under N(mu, sigma^2 I). All fields
may carry leading axes: many MDPs at once.

Spread evenly over [0, 1], each state a cell of length 1/n, the same MDP has a density
T(s' | s, a) that is L-Lipschitz in a, and I(S) = 1.
"""

from typing import NamedTuple

import numpy as np


class Waves(NamedTuple):
    near: np.ndarray  # [..., n, n]
    far: np.ndarray  # [..., n, n]
    w: np.ndarray  # [..., n, m]
    f: np.ndarray  # [..., n]
    r: np.ndarray  # [..., n]
    z: np.ndarray  # [..., n]
    x: np.ndarray  # [..., n]
    start: np.ndarray  # [..., n]
    gamma: np.ndarray  # [...]


def random_waves(
    rng: np.random.Generator, many: tuple[int, ...], states: int, dimension: int, gamma
) -> Waves:
    """Random MDPs, from memoryless to almost static, with slow and fast waves."""
    peaked = rng.choice([0.05, 0.3, 1.0], size=(*many, 1, 1))
    rows = rng.gamma(peaked, size=(2, *many, states, states)) + 1e-12
    rows /= rows.sum(axis=-1, keepdims=True)
    restless = 10 ** rng.uniform(-4, 0, size=(2, *many, 1, 1))
    rows = restless * rows + (1 - restless) * np.eye(states)
    each = (*many, states)
    speed = 10 ** rng.uniform(-2, 1, size=(*many, 1, 1))
    return Waves(
        near=rows[0],
        far=rows[1],
        w=speed * rng.normal(size=(*each, dimension)),
        f=rng.uniform(-np.pi, np.pi, size=each),
        r=rng.normal(size=each) * rng.choice([0.0, 1.0], size=(*many, 1)),
        z=rng.normal(size=each),
        x=rng.uniform(-np.pi, np.pi, size=each),
        start=rng.dirichlet(np.full(states, 0.3), size=many),
        gamma=np.broadcast_to(gamma, many),
    )


def sines(waves: Waves, mu: np.ndarray, sigma) -> tuple[np.ndarray, np.ndarray]:
    """E[sin(w.a + f)] and E[sin(w.a + x)], a ~ N(mu, sigma^2 I); mu is [..., n, m]."""
    phase = (waves.w * mu).sum(axis=-1)
    damp = np.exp(-(waves.w**2).sum(axis=-1) * np.expand_dims(sigma, -1) ** 2 / 2)
    return damp * np.sin(phase + waves.f), damp * np.sin(phase + waves.x)


def transitions(waves: Waves, mu: np.ndarray, sigma) -> np.ndarray:
    """P_pi [..., n, n]."""
    p = (1 + sines(waves, mu, sigma)[0][..., None]) / 2
    return (1 - p) * waves.near + p * waves.far


def value(waves: Waves, mu: np.ndarray, sigma) -> np.ndarray:
    """V = (I - gamma P)^-1 R, [..., n]."""
    reward = waves.r + waves.z * sines(waves, mu, sigma)[1]
    p = transitions(waves, mu, sigma)
    system = np.eye(p.shape[-1]) - waves.gamma[..., None, None] * p
    return np.linalg.solve(system, reward[..., None])[..., 0]


def visits(waves: Waves, mu: np.ndarray, sigma) -> np.ndarray:
    """d(s) = start' (I - gamma P)^-1, [..., n]."""
    p = np.swapaxes(transitions(waves, mu, sigma), -1, -2)
    system = np.eye(p.shape[-1]) - waves.gamma[..., None, None] * p
    return np.linalg.solve(system, waves.start[..., None])[..., 0]


def performance(waves: Waves, mu: np.ndarray, sigma) -> np.ndarray:
    """J = start' V."""
    return (waves.start * value(waves, mu, sigma)).sum(axis=-1)


def advantage_parts(
    waves: Waves, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, b, z): A(s, a) = k + b sin(w.a + f) + z sin(w.a + x), V that of pi."""
    ahead = waves.gamma[..., None] * np.einsum("...st,...t->...s", waves.near, v)
    other = waves.gamma[..., None] * np.einsum("...st,...t->...s", waves.far, v)
    return waves.r + (ahead + other) / 2 - v, (other - ahead) / 2, waves.z


def advantage(waves: Waves, v: np.ndarray, action: np.ndarray) -> np.ndarray:
    """A(s, action(s)); action is [..., n, m]."""
    k, b, z = advantage_parts(waves, v)
    near, far = sines(waves, action, np.zeros(()))
    return k + b * near + z * far


def largest_advantage(waves: Waves, v: np.ndarray) -> np.ndarray:
    """max over s and a of |A|: two sines of one frequency add up to one sine, whose
    amplitude is that of the sum of their phasors."""
    k, b, z = advantage_parts(waves, v)
    amplitude = np.abs(b * np.exp(1j * waves.f) + z * np.exp(1j * waves.x))
    return (np.abs(k) + amplitude).max(axis=-1)


def lipschitz(waves: Waves) -> np.ndarray:
    """L of the density on [0, 1]: n max |far - near| |w| / 2 over states."""
    states = waves.f.shape[-1]
    apart = np.abs(waves.far - waves.near).max(axis=-1)
    return states * (apart * np.linalg.norm(waves.w, axis=-1) / 2).max(axis=-1)
