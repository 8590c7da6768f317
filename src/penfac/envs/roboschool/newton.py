"""Solve MuJoCo's constraint problem on MJX's data, in few sequential operations.

Accelerations x minimise a convex cost,

    1/2 (x - a)' M (x - a) + sum of the cost of each constraint at its residual J x - r,

where a is the acceleration without constraints (MuJoCo's documentation, "Computation").
This is Newton's method. A line search evaluates many points at once; MJX's own solver
evaluates one point after another.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float
from mujoco import mjx

from penfac.machine import runs_on_accelerator

COARSE = 16  # points of a line that are evaluated together, far apart
FINE = 8  # ... and then, twice, between the two around the zero
TINY = 1e-30
Slopes = Callable[[Float[Array, " t"]], Float[Array, " t"]]


class OneWay(NamedTuple):
    """Joint limits and edges of friction pyramids: cost D/2 min(0, r)^2 each."""

    J: Float[Array, "n v"]
    aim: Float[Array, " n"]
    D: Float[Array, " n"]

    def residual(self, x: Float[Array, " v"]) -> Float[Array, " n"]:
        return self.J @ x - self.aim

    def cost(self, r: Float[Array, " n"]) -> Float[Array, ""]:
        return jnp.sum(self.D * jnp.minimum(r, 0) ** 2) / 2

    def gradient(self, r: Float[Array, " n"]) -> Float[Array, " v"]:
        return self.J.T @ (self.D * jnp.minimum(r, 0))

    def hessian(self, r: Float[Array, " n"]) -> Float[Array, "v v"]:
        return (self.J.T * (self.D * (r < 0))) @ self.J

    def slopes(self, r: Float[Array, " n"], v: Float[Array, " n"]) -> Slopes:
        """The derivative of the cost at r + t v, by t."""

        def at(t):
            return jnp.sum(self.D * v * jnp.minimum(r + t[:, None] * v, 0), axis=1)

        return at


class Sliding(NamedTuple):
    """The state of friction cones at a residual."""

    sticks: Bool[Array, " c"]
    slides: Bool[Array, " c"]
    N: Float[Array, " c"]
    T: Float[Array, " c"]  # 1 where nothing slides
    way: Float[Array, "c 2"]  # direction of sliding


class Cones(NamedTuple):
    """Elliptic friction cones, three rows each, in coordinates u = friction * r.

    Let N be the first of u and T the length of the rest. A cone sticks if mu N + T <= 0
    (D/2 r^2 in all rows), slides if N < mu T (mass/2 (N - mu T)^2), and is open
    otherwise.
    """

    J: Float[Array, "c 3 v"]
    aim: Float[Array, "c 3"]
    D: Float[Array, "c 3"]
    friction: Float[Array, "c 3"]  # mu, and that of both tangents

    @property
    def mu(self) -> Float[Array, " c"]:
        return self.friction[:, 0]

    @property
    def mass(self) -> Float[Array, " c"]:
        return self.D[:, 0] / jnp.maximum(self.mu**2 * (1 + self.mu**2), TINY)

    def zones(self, N: Array, T: Array) -> tuple[Array, Array]:
        sticks = (N < 0) & (self.mu * N + T <= 0)
        return sticks, ~sticks & (self.mu * T > N)

    def residual(self, x: Float[Array, " v"]) -> Float[Array, "c 3"]:
        return self.J @ x - self.aim

    def sliding(self, r: Float[Array, "c 3"]) -> Sliding:
        u = r * self.friction
        N, T = u[:, 0], jnp.sqrt(jnp.sum(u[:, 1:] ** 2, axis=1))
        sticks, slides = self.zones(N, T)
        T = jnp.where(slides, T, 1)
        return Sliding(sticks, slides, N, T, u[:, 1:] / T[:, None])

    def normal(self, way: Float[Array, "c 2"]) -> Float[Array, "c 3"]:
        """The derivative of N - mu T by u."""
        return jnp.concatenate([jnp.ones_like(way[:, :1]), -self.mu[:, None] * way], 1)

    def cost(self, r: Float[Array, "c 3"]) -> Float[Array, ""]:
        now = self.sliding(r)
        stuck = now.sticks * jnp.sum(self.D * r * r, axis=1)
        slid = now.slides * self.mass * (now.N - self.mu * now.T) ** 2
        return jnp.sum(stuck + slid) / 2

    def gradient(self, r: Float[Array, "c 3"]) -> Float[Array, " v"]:
        now = self.sliding(r)
        size = now.slides * self.mass * (now.N - self.mu * now.T)
        stuck = now.sticks[:, None] * self.D * r
        slid = size[:, None] * self.friction * self.normal(now.way)
        return jnp.einsum("ci,civ->v", stuck + slid, self.J)

    def hessian(self, r: Float[Array, "c 3"]) -> Float[Array, "v v"]:
        now, mu = self.sliding(r), self.mu
        # d2/du2 of (N - mu T)^2 / 2: along its normal, and as T turns
        normal = self.normal(now.way)
        across = jnp.eye(2) - now.way[:, :, None] * now.way[:, None, :]
        turning = jnp.pad(across, ((0, 0), (1, 0), (1, 0)))
        block = normal[:, :, None] * normal[:, None, :]
        block += (mu * (mu - now.N / now.T))[:, None, None] * turning
        scale = self.friction * jnp.sqrt(now.slides * self.mass)[:, None]
        block *= scale[:, :, None] * scale[:, None, :]
        block += (now.sticks[:, None] * self.D)[:, :, None] * jnp.eye(3)
        half = jnp.einsum("cij,cjv->civ", block, self.J)
        return jnp.einsum("civ,ciw->vw", self.J, half)

    def slopes(self, r: Float[Array, "c 3"], v: Float[Array, "c 3"]) -> Slopes:
        """The derivative of the cost at r + t v, by t: N is a line, T^2 a parabola."""
        stuck, firmer = jnp.sum(self.D * r * v, axis=1), jnp.sum(self.D * v * v, axis=1)
        u, w = r * self.friction, v * self.friction
        uu, uw, ww = (
            jnp.sum(a[:, 1:] * b[:, 1:], axis=1) for a, b in ((u, u), (u, w), (w, w))
        )

        def at(t):
            t = t[:, None]
            N = u[:, 0] + t * w[:, 0]
            T = jnp.sqrt(jnp.maximum(uu + t * (2 * uw + t * ww), 0))
            sticks, slides = self.zones(N, T)
            grows = (uw + t * ww) / jnp.where(slides, T, 1)
            slid = self.mass * (N - self.mu * T) * (w[:, 0] - self.mu * grows)
            held = stuck + t * firmer
            return jnp.sum(jnp.where(sticks, held, jnp.where(slides, slid, 0)), axis=1)

        return at


def constraints(model: mjx.Model, data: mjx.Data) -> list[OneWay | Cones]:
    """The constraints of MJX's data: limits come first, then contacts."""
    rows: Any = data._impl  # where MJX stores them
    J, aim, D = rows.efc_J, rows.efc_aref, rows.efc_D
    if model.opt.cone == mjx.ConeType.PYRAMIDAL:
        return [OneWay(J, aim, D)]
    k, tangents = rows.nl, rows.contact.friction[:, :2]
    mu = tangents[:, :1] / jnp.sqrt(model.opt.impratio)
    cones = Cones(
        J[k:].reshape(-1, 3, J.shape[1]),
        aim[k:].reshape(-1, 3),
        D[k:].reshape(-1, 3),
        jnp.concatenate([mu, tangents], axis=1),
    )
    return [OneWay(J[:k], aim[:k], D[:k]), cones]


def solve(model: mjx.Model, data: mjx.Data, rounds: int) -> mjx.Data:
    """Do what `mjx.solve` does, for joint limits and contacts of three rows."""
    every = constraints(model, data)
    M = mjx.full_m(model, data)
    free = solve_positive(M, data.qfrc_smooth)

    def cost(x):
        away = x - free
        return away @ M @ away / 2 + sum(c.cost(c.residual(x)) for c in every)

    def one_round(_, x):
        # compute residuals anew: updated step by step, they drift away from x
        force, each = M @ (x - free), [(c, c.residual(x)) for c in every]
        down = -force - sum(c.gradient(r) for c, r in each)
        line = solve_positive(M + sum(c.hessian(r) for c, r in each), down)
        slope, bend = line @ force, line @ M @ line
        moving = [(c, r, c.J @ line) for c, r in each]
        return x + line_minimum(slope, bend, moving) * line

    warm = data.qacc_warmstart
    x = jnp.where(cost(warm) < cost(free), warm, free)
    # unrolled on a GPU, where inner loops wait; a loop compiles faster on a CPU
    at_once = rounds if runs_on_accelerator() else 1
    x = jax.lax.fori_loop(0, rounds, one_round, x, unroll=at_once)
    push = -sum(c.gradient(c.residual(x)) for c in every)
    return data.replace(qacc=x, qfrc_constraint=push)


# --- lines -------------------------------------------------------------------------------


def line_minimum(
    slope: Float[Array, ""],
    bend: Float[Array, ""],
    moving: list[tuple[OneWay | Cones, Array, Array]],
) -> Float[Array, ""]:
    """Return how far to go along a line. Slope and bend are of the quadratic part; each
    constraint is at r and changes by v per unit."""
    if len(moving) == 1:
        only, r, v = moving[0]
        return between_breaks(slope, bend, only.D, r, v)
    slopes = [c.slopes(r, v) for c, r, v in moving]
    return between_points(
        lambda t: slope + bend * t + sum(at(t) for at in slopes), bend
    )


def between_breaks(
    slope: Float[Array, ""],
    bend: Float[Array, ""],
    D: Float[Array, " n"],
    r: Float[Array, " n"],
    v: Float[Array, " n"],
) -> Float[Array, ""]:
    """Return the t >= 0 that minimises a line's cost exactly. The cost is

        slope t + bend t^2 / 2 + sum_i D_i/2 min(0, r_i + t v_i)^2.

    The derivative rises piecewise linearly, with a break wherever a constraint becomes
    active or inactive. The minimum is in the piece after the last break where the
    derivative is negative.
    """
    breaks = jnp.where(v * r < 0, -r / jnp.where(v == 0, 1, v), 0)

    def derivative(t):
        below = jnp.minimum(r + t[..., None] * v, 0)
        return slope + bend * t + jnp.sum(D * v * below, axis=-1)

    falls = derivative(breaks) < 0
    low = jnp.max(jnp.where(falls, breaks, 0), initial=0)
    high = jnp.min(jnp.where(breaks > low, breaks, jnp.inf), initial=jnp.inf)
    inside = jnp.where(high < jnp.inf, (low + high) / 2, low + 1)
    curvature = bend + jnp.sum(D * v * v * (r + inside * v < 0))
    return jnp.clip(inside - derivative(inside) / (curvature + TINY), low, high)


def between_points(derivative: Slopes, bend: Float[Array, ""]) -> Float[Array, ""]:
    """Return the zero of a derivative that is negative at 0 and rises by at least
    `bend` per unit."""
    fall = jnp.maximum(-derivative(jnp.zeros(1))[0], 0)
    far = fall / (bend + TINY)  # the derivative is not negative there
    ts = jnp.append(0.0, far * 4.0 ** jnp.arange(1 - COARSE, 1))
    low, high, at_low, at_high = bracket(ts, derivative(ts))
    for _ in range(2):
        ts = low + (high - low) * jnp.linspace(0, 1, FINE + 2)
        low, high, at_low, at_high = bracket(ts, derivative(ts))
    share = -at_low / jnp.maximum(at_high - at_low, TINY)
    return low + jnp.clip(share, 0, 1) * (high - low)


def bracket(ts: Float[Array, " t"], at: Float[Array, " t"]) -> tuple[Array, ...]:
    """Return the neighbours between which the derivative becomes positive, with both
    values."""
    k = jnp.clip(jnp.sum(at < 0) - 1, 0, len(ts) - 2)
    return ts[k], ts[k + 1], at[k], at[k + 1]


def solve_positive(A: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """Solve A x = b. A positive matrix needs no pivots, so elimination is n operations
    on the whole matrix, without a library call."""
    n = len(b)
    table, row = jnp.column_stack([A, b]), jnp.arange(n)
    for k in range(n):
        pivot = table[k] / table[k, k]
        table = table - (table[:, k] - (row == k))[:, None] * pivot
    return table[:, n]
