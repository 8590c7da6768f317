"""Check on many states, extreme ones included, that an exported policy acts as ours."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penfac.errors import CorruptFile
from penfac.policy import Policy, mean_action

STATES = 10_000
MOST = 1e-5  # largest difference allowed, as a share of the action's range
EXTREMES = (0.0, 1e-3, 1.0, 10.0, 1e6, 1e-40, float(np.finfo(np.float32).max))
SETTLED = MOST / 4  # below this effect of rounding, float32 has one answer
OPEN = 16  # elsewhere: factor on the effect of rounding that is allowed
Act = Callable[[np.ndarray], np.ndarray]  # [N, n] in float32 to [N, *shape]


class Agreement(NamedTuple):
    """How closely an export agrees with the policy."""

    worst: float  # largest difference at the settled states
    states: int  # states that were compared
    settled: int  # states where float32 has one answer in any order of sums


def states(policy: Policy, count: int = STATES) -> np.ndarray:
    """Return [count, n] states: zero, each extreme in all dimensions and in each alone,
    and random ones around the training states, from near to far."""
    n, rng = len(policy.weights.mean), np.random.default_rng(0)
    ends = np.array([sign * x for x in EXTREMES for sign in (1, -1)], np.float32)
    alone = np.eye(n, dtype=np.float32)[None] * ends[:, None, None]
    fixed = np.concatenate([np.repeat(ends[:, None], n, 1), alone.reshape(-1, n)])
    near = 10.0 ** rng.uniform(-2, 2, (count, 1))
    drawn = centre(policy) + near * rng.normal(size=(count, n)) * width(policy)
    drawn[::7] = rng.choice(ends, drawn[::7].shape)  # mixed extremes
    fixed = fixed[rng.permutation(len(fixed))[: count // 2]]
    return np.concatenate([fixed, drawn.astype(np.float32)])[:count]


def centre(policy: Policy) -> np.ndarray:
    """The mean of the training states, as far as the policy knows it."""
    tiling = policy.weights.tiling
    if tiling is None:
        return policy.weights.mean
    return (np.array(tiling.low) + np.array(tiling.high)) / 2


def width(policy: Policy) -> np.ndarray:
    tiling = policy.weights.tiling
    if tiling is None:
        return policy.weights.std
    return (np.array(tiling.high) - np.array(tiling.low)) / 4


def left_open(policy: Policy, obs: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """How far rounding alone may move each action.

    It is measured against float64, with the last bits of state and weights changed as
    another order of sums would change them. It is 0 for tiles, which only float32
    decides.
    """
    if policy.weights.tiling is not None:
        return np.zeros(len(obs))
    rng, found = np.random.default_rng(1), np.zeros(len(obs))

    def blurred(x: np.ndarray) -> np.ndarray:
        last_bit = np.float64(np.finfo(np.float32).eps)
        return x * (1 + last_bit * rng.choice([-2, 2], x.shape))

    for _ in range(4):
        layers = [(blurred(w), blurred(b)) for w, b in policy.weights.layers]
        other = mean_action(policy.weights._replace(layers=layers), blurred(obs))
        moved = np.abs(np.clip(other, -1, 1) - np.clip(unit, -1, 1)).max(1) / 2
        found = np.maximum(found, np.nan_to_num(moved, nan=1.0))
    return found


def may_overflow(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """[N]: whether sums may overflow float32 in some order of their terms. There a
    policy returns either an action or a NaN."""
    w, most = policy.weights, float(np.finfo(np.float32).max)
    if w.tiling is not None:
        return np.zeros(len(obs), bool)
    x = np.minimum(np.abs((obs.astype(float) - w.mean) / w.std), w.clip)
    x = x * np.abs(w.scale) + np.abs(w.shift)
    largest = x.max(1)
    for k, (matrix, bias) in enumerate(w.layers):
        x = np.minimum(x, 1) if k and w.activation == "tanh" else x
        x = x @ np.abs(matrix).astype(float) + np.abs(bias)
        largest = np.maximum(largest, x.max(1))
    return largest > most


def compare(act: Act, policy: Policy, what: str) -> Agreement:
    """Refuse an export that differs on any state, leaves its bounds, or gives an action
    for a state that is not finite."""
    obs = states(policy)
    refuse_unless_nan(act, policy, what)
    with np.errstate(all="ignore"):
        unit = mean_action(policy.weights, obs)
        due, found = policy.actions.to_env(unit), act(obs)
        if found.shape != due.shape or found.dtype != due.dtype:
            raise CorruptFile(
                f"{what}: returns {found.dtype} {found.shape[1:]}, but "
                f"the policy {due.dtype} {due.shape[1:]}; nothing written"
            )
        apart = difference(policy, found, due)
        vague = may_overflow(policy, obs)
        apart[vague & np.isnan(apart)] = 0  # both are NaN: no difference
        moved = np.where(vague, 1, left_open(policy, obs, unit))
    settled = moved <= SETTLED
    wrong = np.nan_to_num(apart / np.where(settled, MOST, OPEN * moved), nan=np.inf)
    if wrong.max() > 1:
        k = int(np.argmax(wrong))
        raise CorruptFile(
            f"{what}: differs from the policy by {apart[k]:.1e} of the range at state "
            f"{obs[k].tolist()}, more than {MOST:.0e}; nothing written"
        )
    return Agreement(float(apart[settled].max(initial=0)), len(obs), int(settled.sum()))


def difference(policy: Policy, found: np.ndarray, due: np.ndarray) -> np.ndarray:
    """[N]: the largest difference over the actions, as a share of their ranges; inf
    outside the bounds, NaN where either is NaN."""
    low, high = policy.actions.ends
    rows = found.reshape(len(found), -1).astype(float)
    apart = np.abs(rows - due.reshape(len(due), -1)) / (high - low)
    outside = (rows < low) | (rows > high)
    return np.where(outside.any(1), np.inf, apart.max(1))


def refuse_unless_nan(act: Act, policy: Policy, what: str) -> None:
    """Refuse an export that gives an action for a state that is not finite."""
    n = len(policy.weights.mean)
    broken = np.zeros((3 * n, n), np.float32)
    for k, value in enumerate((np.nan, np.inf, -np.inf)):
        broken[k * n + np.arange(n), np.arange(n)] = value
    if not np.isnan(act(broken)).all():
        raise CorruptFile(
            f"{what}: must return NaN for a NaN or an infinity; nothing written"
        )
