"""Action values: their targets and losses, and the gradients that an actor follows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.algos.nets import init_layers, mlp
from penfac.core.actor import (
    ACTOR_RULES,
    actor_weight,
    cac_weight,
    dpg_loss,
    spg_weight,
    toward_loss,
)
from penfac.core.critic import compatible_q, q_loss, q_target, soft_update

N, M, B = 3, 2, 6


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


@pytest.mark.parametrize("critics", [1, 2, 5])
def test_the_target_takes_the_least_of_the_critics(critics):
    """R + d min_k Q_k, row by row; with one critic that is its own word."""
    reward, discount, q = draw(0, B), jnp.abs(draw(1, B)), draw(2, critics, B)
    target = q_target(reward, discount, q)
    for i in range(B):
        least = min(float(q[k, i]) for k in range(critics))
        expected = float(reward[i]) + float(discount[i]) * least
        np.testing.assert_allclose(target[i], expected, rtol=1e-5, atol=1e-6)


def test_behind_a_termination_the_target_is_the_reward():
    """Discount 0: whatever the critics say, bit for bit."""
    reward = draw(0, B)
    target = q_target(reward, jnp.zeros(B), 1e6 * draw(1, 2, B))
    assert np.all(target == reward)


def test_the_loss_is_half_a_mean_square_summed_over_critics():
    """Term by term; and each critic's gradient is as if it were alone."""
    q, target = draw(0, 2, B), draw(1, B)
    by_hand = sum(
        0.5 * sum((float(q[k, i]) - float(target[i])) ** 2 for i in range(B)) / B
        for k in range(2)
    )
    np.testing.assert_allclose(q_loss(q, target), by_hand, rtol=1e-5)
    grad = jax.grad(q_loss)(q, target)
    np.testing.assert_allclose(grad, (q - target) / B, rtol=1e-5, atol=1e-7)


def test_soft_update_goes_a_fraction_of_the_way():
    """(1 - tau) target + tau source on every leaf; 0 stays, 1 arrives."""
    target, source = (
        {"a": draw(0, 3), "b": [draw(1, 2, 2)]},
        {"a": draw(2, 3), "b": [draw(3, 2, 2)]},
    )
    for tau in (0.0, 0.005, 0.3, 1.0):
        moved = soft_update(target, source, tau)
        jax.tree.map(
            lambda t, s, m, tau=tau: np.testing.assert_allclose(
                m, (1 - tau) * t + tau * s, rtol=1e-5, atol=1e-6
            ),
            target, source, moved,
        )  # fmt: skip
    still = soft_update(target, source, 0.0)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), still, target))


def test_soft_updates_repeated_approach_geometrically():
    """After k of them (1 - tau)^k of the way is left."""
    target, source, tau = jnp.zeros(()), jnp.ones(()), 0.1
    for k in range(1, 30):
        target = soft_update(target, source, tau)
        np.testing.assert_allclose(1 - target, (1 - tau) ** k, rtol=1e-4)


def test_compatible_q_is_v_at_mu_and_slopes_along_its_direction():
    """Q(s, mu) = V, grad_a Q = d at any action, Q linear in a."""
    direction, action, mean, v = draw(0, M), draw(1, M), draw(2, M), draw(3)
    np.testing.assert_allclose(compatible_q(direction, mean, mean, v), v)
    expected = sum(
        (float(action[j]) - float(mean[j])) * float(direction[j]) for j in range(M)
    )
    q = compatible_q(direction, action, mean, v)
    np.testing.assert_allclose(q, expected + float(v), rtol=1e-5)
    for a in (action, mean, 10 * action):
        slope = jax.grad(compatible_q, argnums=1)(direction, a, mean, v)
        np.testing.assert_allclose(slope, direction)


@pytest.mark.parametrize("output", ["linear", "tanh"])
def test_dpg_loss_has_the_gradient_of_equation_3(output):
    """-mean grad_a Q(s, a) grad_theta mu(s), from explicit Jacobians, one by one."""
    squash = jnp.tanh if output == "tanh" else lambda x: x
    actor = init_layers(jax.random.key(0), (N, 4, M), "orthogonal", 1.0)
    critic = init_layers(jax.random.key(1), (N + M, 5, 1), "orthogonal", 1.0)
    obs = draw(0, B, N)

    def mu(actor, s):
        return squash(mlp(actor, s, "tanh"))

    def q(s, a):
        return mlp(critic, jnp.concatenate([s, a], axis=-1), "tanh")[..., 0]

    @jax.jit
    def ours(actor):
        return jax.grad(lambda a: dpg_loss(q(obs, mu(a, obs))))(actor)

    @jax.jit
    def jacobians(actor, s):
        return jax.grad(q, argnums=1)(s, mu(actor, s)), jax.jacrev(mu)(actor, s)

    expected = [np.zeros(x.shape) for x in jax.tree.leaves(actor)]
    for s in obs:
        slope, jacobian = jacobians(actor, s)
        for total, j in zip(expected, jax.tree.leaves(jacobian), strict=True):
            total -= np.tensordot(np.asarray(slope), np.asarray(j), axes=1) / B
    for a, b in zip(jax.tree.leaves(ours(actor)), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_spg_is_cac_plus_what_pushes_away():
    """grad under A = grad under A H(A) + grad under A H(-A), on a network."""
    actor = init_layers(jax.random.key(0), (N, 4, M), "orthogonal", 1.0)
    obs, action, advantage = draw(0, B, N), draw(1, B, M), draw(2, B)
    assert advantage.min() < 0 < advantage.max()

    @jax.jit
    def gradient(weight):
        loss = lambda a: toward_loss(mlp(a, obs, "tanh"), action, weight)  # noqa: E731
        return jax.grad(loss)(actor)

    negative = jnp.minimum(advantage, 0)
    whole = gradient(spg_weight(advantage))
    parts = gradient(cac_weight(advantage)), gradient(negative)
    summed = jax.tree.map(jnp.add, *parts)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        whole,
        summed,
    )
    np.testing.assert_allclose(
        actor_weight(advantage, ACTOR_RULES["spg"]), advantage, rtol=1e-6
    )
