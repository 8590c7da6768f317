"""TD errors and lambda-returns on one time axis  (Sec. 3)."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int


def discounts(
    terminated: Bool[Array, " *N"],
    truncated: Bool[Array, " *N"],
    gamma: Float[Array, ""] | float,
    bootstrap: Float[Array, ""] | float = 1.0,
) -> Float[Array, " *N"]:
    """gamma where the future counts, 0 where s_{t+1} is absorbing.

    `bootstrap` = 0 also cuts the future at a time limit, as the authors' runs did
    (deviation D8); 1 keeps it.
    """
    goes_on = 1.0 - terminated.astype(jnp.float32)
    not_cut = 1.0 - truncated.astype(jnp.float32) * (1.0 - bootstrap)
    return gamma * goes_on * not_cut


def td_errors(
    reward: Float[Array, " N"],
    discount: Float[Array, " N"],
    v: Float[Array, " N"],
    v_next: Float[Array, " N"],
) -> Float[Array, " N"]:
    """delta(s, a) = R(s, a) + gamma V(s') - V(s)  (Sec. 3.1, below Eq. 6)."""
    return reward + discount * v_next - v


def lambda_advantages(
    delta: Float[Array, " N"],
    discount: Float[Array, " N"],
    last: Bool[Array, " N"],
    lam: Float[Array, ""] | float,
) -> Float[Array, " N"]:
    """A_t = delta_t + gamma_t lam A_{t+1}, started anew behind every `last` step.

    The lambda-return minus V(s_t)  (Sec. 3.3). `discount` alone cannot end the sum:
    a time limit bootstraps (discount > 0) and still nothing may leak across it.
    """
    decay = jnp.where(last, 0.0, discount * lam)
    # thousands of tiny steps are nothing to a CPU and an age to an accelerator
    return jax.lax.platform_dependent(
        delta, decay, cpu=backward_in_turn, default=backward_by_halves
    )


def backward_in_turn(
    x: Float[Array, " N"], decay: Float[Array, " N"]
) -> Float[Array, " N"]:
    """y_t = x_t + decay_t y_{t+1}, one step after another."""

    def step(y_next, now):
        x_t, decay_t = now
        y_t = x_t + decay_t * y_next
        return y_t, y_t

    return jax.lax.scan(step, jnp.zeros((), x.dtype), (x, decay), reverse=True)[1]


def backward_by_halves(
    x: Float[Array, " N"], decay: Float[Array, " N"]
) -> Float[Array, " N"]:
    """The same in log N rounds: two neighbouring steps are one, y -> a + b y."""

    def joined(later, now):
        a_later, b_later = later
        a, b = now
        return a + b * a_later, b * b_later

    return jax.lax.associative_scan(joined, (x, decay), reverse=True)[0]


def lambda_returns(
    reward: Float[Array, " N"],
    discount: Float[Array, " N"],
    last: Bool[Array, " N"],
    v: Float[Array, " N"],
    v_next: Float[Array, " N"],
    lam: Float[Array, ""] | float,
) -> Float[Array, " N"]:
    """G_t = V(s_t) + A_t: what the critic is fitted to  (Sec. 3.3)."""
    delta = td_errors(reward, discount, v, v_next)
    return v + lambda_advantages(delta, discount, last, lam)


def n_step_returns(
    reward: Float[Array, "N n"],
    discount: Float[Array, "N n"],
    follows: Bool[Array, "N n"],
) -> tuple[Float[Array, " N"], Float[Array, " N"], Int[Array, " N"]]:
    """Rewards summed over windows of up to n steps: (sum, discount of what comes
    behind, index of the last step in it).

    r_0 + d_0 r_1 + d_0 d_1 r_2 + ... A window stops early where an episode ends or where
    `follows` says that the next step is not the successor; what it then leaves to the
    critic is discounted by the steps really taken, 0 behind a termination.
    """
    n = reward.shape[1]
    reached = jnp.concatenate(
        [jnp.ones_like(follows[:, :1]), jnp.cumprod(follows[:, :-1], axis=1) > 0],
        axis=1,
    )
    products = jnp.cumprod(jnp.where(reached, discount, 1.0), axis=1)
    before = jnp.concatenate([jnp.ones_like(products[:, :1]), products[:, :-1]], axis=1)
    total = jnp.sum(jnp.where(reached, before * reward, 0.0), axis=1)
    last = jnp.sum(reached, axis=1) - 1
    return total, products[:, n - 1], last


def ddrl_n_step_returns(
    reward: Float[Array, "N n"],
    discount: Float[Array, "N n"],
    follows: Bool[Array, "N n"],
    gamma: Float[Array, ""] | float,
) -> tuple[Float[Array, " N"], Float[Array, " N"], Int[Array, " N"]]:
    """What the authors' DDPG computed: the last reward of the window is missing, what
    comes behind is discounted by gamma once, and an end inside it is never seen as one
    (deviation D18). A window stops before a termination, unless that is its first step.
    """
    n = reward.shape[1]
    ends = discount == 0
    ahead = jnp.roll(ends, -1, axis=1).at[:, -1].set(False)
    goes_on = follows & ~ahead  # the step that terminates is left out
    reached = jnp.concatenate(
        [jnp.ones_like(follows[:, :1]), jnp.cumprod(goes_on[:, :-1], axis=1) > 0],
        axis=1,
    )
    last = jnp.sum(reached, axis=1) - 1
    counted = jnp.arange(n)[None] < last[:, None]
    powers = gamma ** jnp.arange(n)[None]
    total = jnp.sum(jnp.where(counted, powers * reward, 0.0), axis=1)
    return total, jnp.full(len(reward), gamma), last
