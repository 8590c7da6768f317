"""Off-policy PeNFAC: better than mu by Q, and CAC's step together with DPG's.

This is ours; the paper names both as future work (Sec. 7, D36). The theory page says where
each of these steps comes to rest (`penfac theory rest-over-mu`, `rest-combined`).
"""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

Number = Float[Array, ""] | float


def advantage_over_mu(
    q: Float[Array, "K *#b"], q_mu: Float[Array, "K *#b"]
) -> Float[Array, " *#b"]:
    """A(s, a) = min_k Q_k(s, a) - min_k Q_k(s, mu(s)): whether a is better than mu(s)."""
    return jnp.min(q, axis=0) - jnp.min(q_mu, axis=0)


def mirrored(half: Float[Array, "J *b"]) -> Float[Array, "2*J *b"]:
    """Noise and its opposite: E[b] is 0 in the sample too, so the centred and the plain
    step of D23 are the same."""
    return jnp.concatenate([half, -half])


def pull(
    weight: Float[Array, "J B"],
    action: Float[Array, "J B m"],
    mean: Float[Array, "B m"],
) -> Float[Array, "B m"]:
    """mean_j w_j (a_j - mu(s)): CACLA's step with w = H(A), CAC's with w = A H(A)."""
    return jnp.mean(weight[..., None] * (action - mean), axis=0)


def unit_rms(step: Float[Array, "B m"]) -> Float[Array, "B m"]:
    """A step divided by its root mean square over the minibatch; 0 stays 0."""
    rms = jnp.sqrt(jnp.mean(step**2))
    return step / jnp.where(rms > 0, rms, 1.0)


def blended(
    pulled: Float[Array, "B m"], slope: Float[Array, "B m"], share: Number
) -> Float[Array, "B m"]:
    """(1 - share) of CAC's step and `share` of DPG's, grad_a Q(s, mu(s)), both of size 1:
    the scale of Q divides out, only the share sets which of them leads."""
    return (1 - share) * unit_rms(pulled) + share * unit_rms(slope)


def along(mean: Float[Array, "B m"], step: Float[Array, "B m"]) -> Float[Array, ""]:
    """-mean_s step(s) . mu(s): its gradient in theta is -mean step grad mu, as that of
    `penfac.core.actor.dpg_loss` for step = grad_a Q(s, mu(s))."""
    return -jnp.mean(jnp.sum(step * mean, axis=-1))


def agreement(
    pulled: Float[Array, "B m"], slope: Float[Array, "B m"]
) -> Float[Array, ""]:
    """The cosine of two steps over a minibatch; 0 where one of them is 0."""
    return jnp.mean(unit_rms(pulled) * unit_rms(slope))
