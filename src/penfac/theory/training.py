"""The step of training: the gradient of its loss over a sample."""

import numpy as np
from scipy.special import ndtri


def training_step(
    rule: str, advantage: np.ndarray, moved: np.ndarray, centred: bool = False
) -> np.ndarray:
    """Minus the gradient of `toward_loss` in mu, averaged over a sample b = a - mu [N, m]:
    what one state adds to a step of CACLA, CAC or SPG. `centred` adds
    `control_variate`."""
    import jax
    import jax.numpy as jnp

    from penfac.core.actor import (
        ACTOR_RULES,
        actor_weight,
        control_variate,
        toward_loss,
    )

    with jax.enable_x64(True):
        action = jnp.asarray(moved, jnp.float64)
        advantages = jnp.asarray(advantage, jnp.float64)
        weight = actor_weight(advantages, ACTOR_RULES[rule]) / len(moved)
        centre = jnp.full_like(weight, weight.mean() if centred else 0.0)
        old = jnp.zeros(action.shape[1])  # mu_old, the origin of b

        def loss(mean):
            means, olds = (jnp.broadcast_to(x, action.shape) for x in (mean, old))
            pull = toward_loss(means, action, weight)
            return pull + control_variate(means, action, olds, centre)

        return -np.asarray(jax.grad(loss)(old))


def midpoints(n: int) -> np.ndarray:
    """(i + 1/2) / n: n evenly spaced uniform numbers."""
    return (np.arange(n) + 0.5) / n


def normal_grid(n: int) -> np.ndarray:
    """[n, 1]: the quantiles of N(0, 1) at the midpoints, a sample that is not random."""
    return ndtri(midpoints(n))[:, None]


def standard_error(terms: np.ndarray) -> float:
    """Of the mean of independent vectors [N, m], as one length."""
    return float(np.sqrt(terms.var(axis=0, ddof=1).sum() / len(terms)))
