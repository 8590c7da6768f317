"""What pulls the policy, and how hard  (Eq. 1, 3, 6, 7, 8)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float


def cacla_weight(advantage: Float[Array, " *b"]) -> Float[Array, " *b"]:
    """H(A): every improving action counts the same  (Eq. 6, Eq. 8)."""
    return (advantage > 0).astype(advantage.dtype)


def soft_step(
    advantage: Float[Array, " *b"], softness: Float[Array, ""] | float
) -> Float[Array, " *b"]:
    """1 / (1 + exp(-2 A / softness)), a smooth H(A); H(A) itself if softness is 0  (D34)."""
    soft = jax.nn.sigmoid(2 * advantage / jnp.where(softness > 0, softness, 1.0))
    return jnp.where(softness > 0, soft, cacla_weight(advantage))


def cac_weight(advantage: Float[Array, " *b"]) -> Float[Array, " *b"]:
    """A H(A): improving actions count as much as they improve  (Eq. 7)."""
    return jnp.maximum(advantage, 0)


def spg_weight(advantage: Float[Array, " *b"]) -> Float[Array, " *b"]:
    """A: worse actions push away as hard as better ones pull  (Eq. 1, Sec. 4.1)."""
    return advantage


class ActorRule(NamedTuple):
    """The three updates as three numbers, so that arms of a study share one program."""

    step: Float[Array, ""] | float  # of H(A)
    positive: Float[Array, ""] | float  # of A H(A)
    negative: Float[Array, ""] | float  # of A H(-A)


ACTOR_RULES = {
    "cacla": ActorRule(step=1.0, positive=0.0, negative=0.0),
    "cac": ActorRule(step=0.0, positive=1.0, negative=0.0),
    "spg": ActorRule(step=0.0, positive=1.0, negative=1.0),
}


def actor_weight(
    advantage: Float[Array, " *b"],
    rule: ActorRule,
    softness: Float[Array, ""] | float = 0.0,
) -> Float[Array, " *b"]:
    """The weight of each action under `rule`: H(A), A H(A), A, or a blend."""
    return (
        rule.step * soft_step(advantage, softness)
        + rule.positive * cac_weight(advantage)
        + rule.negative * (spg_weight(advantage) - cac_weight(advantage))
    )


def scale_by_rms(
    advantage: Float[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, " N"]:
    """A divided by its root mean square: the scale goes, every sign stays.

    Never centred: subtracting the mean would move the sign test (deviation D12).
    """
    rms = jnp.sqrt(jnp.mean(advantage**2, where=mask))
    return advantage / jnp.where(rms > 0, rms, 1.0)


def toward_loss(
    mean: Float[Array, "*b m"],
    action: Float[Array, "*b m"],
    weight: Float[Array, " *b"],
) -> Float[Array, ""]:
    """Half the weighted squared distance from mu(s) to an action.

    Its gradient in theta is sum w (mu(s) - a) grad mu(s): the step of Eq. 6 for
    w = H(delta), of Eq. 7 for w = delta H(delta), and the pull back to mu_old of
    Sec. 5.2 for a = mu_old(s), w = beta.
    """
    return 0.5 * jnp.sum(weight * jnp.sum((mean - action) ** 2, axis=-1))


def control_variate(
    mean: Float[Array, "*b m"],
    action: Float[Array, "*b m"],
    mu_old: Float[Array, "*b m"],
    weight: Float[Array, " *b"],
) -> Float[Array, ""]:
    """sum c (a - mu_old(s)) . mu(s), with c the mean of the weights: added to
    `toward_loss` it leaves the expected step at mu_old and takes away variance.

    Its gradient is sum c (a - mu_old) grad mu, and E[a - mu_old] = 0. At mu_old an action
    then pulls with w - c: with w = H(A) the sign of the advantage, centred (D23).
    """
    return jnp.sum(weight * jnp.sum((action - mu_old) * mean, axis=-1))


def likelihood_ratio(
    mean: Float[Array, "*b m"],
    action: Float[Array, "*b m"],
    mu_old: Float[Array, "*b m"],
    sigma: Float[Array, ""] | float,
) -> Float[Array, " *b"]:
    """N(a; mu(s), sigma^2) / N(a; mu_old(s), sigma^2): how much likelier mu has made a."""
    before = jnp.sum((action - mu_old) ** 2, axis=-1)
    now = jnp.sum((action - mean) ** 2, axis=-1)
    return jnp.exp((before - now) / (2 * sigma**2))


def beyond_limit(
    ratio: Float[Array, " *b"],
    pull: Float[Array, " *b"],
    limit: Float[Array, ""] | float,
) -> Bool[Array, " *b"]:
    """Whether mu has followed a sample far enough: its action likelier by more than
    `limit` where it pulls, less likely by more than that where it pushes (D24)."""
    return jnp.where(pull > 0, ratio > 1 + limit, ratio < 1 - limit)


def dpg_loss(q: Float[Array, " N"]) -> Float[Array, ""]:
    """Minus the mean of Q(s, mu(s)): its gradient in theta is minus the mean of
    grad_a Q(s, a) grad_theta mu(s)  (Eq. 3)."""
    return -jnp.mean(q)
