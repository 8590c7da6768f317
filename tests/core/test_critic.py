"""What the critic minimises, and how its fit is judged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.core.critic import explained_variance, value_loss

V = jnp.array([1.0, 2.0, 0.0, 5.0])
TARGET = jnp.array([2.0, 0.0, 0.0, -3.0])
MASK = jnp.array([True, True, True, False])


def test_value_loss_is_half_the_mean_square_over_real_steps(strict_dtypes):
    """((1-2)^2 + (2-0)^2 + 0) / 3 / 2 = 5/6; the padded step does not count."""
    np.testing.assert_allclose(value_loss(V, TARGET, MASK), 5 / 6, rtol=1e-6)


def test_the_gradient_of_value_loss_is_the_error_over_n(strict_dtypes):
    """d/dV = (V - G) / N on real steps, exactly 0 on padding."""
    gradient = jax.grad(value_loss)(V, TARGET, MASK)
    np.testing.assert_allclose(gradient, [-1 / 3, 2 / 3, 0, 0], rtol=1e-6)


def test_explained_variance_is_1_for_a_perfect_critic(strict_dtypes):
    assert explained_variance(TARGET, TARGET, MASK) == 1


def test_explained_variance_is_0_for_a_constant_critic(strict_dtypes):
    """Any constant: 1 - Var(G - c) / Var(G) = 0."""
    assert explained_variance(jnp.full(4, 3.0), TARGET, MASK) == pytest.approx(0)


def test_explained_variance_compares_with_the_variance_of_the_target(strict_dtypes):
    """V = 2 G: 1 - Var(-G) / Var(G) = 0; with the arguments swapped it would be 3/4."""
    ours = explained_variance(2 * TARGET, TARGET, MASK)
    assert ours == pytest.approx(0, abs=1e-6)
    swapped = explained_variance(TARGET, 2 * TARGET, MASK)
    assert swapped == pytest.approx(0.75, abs=1e-6)


def test_explained_variance_of_equal_targets_is_0_and_not_nan(strict_dtypes):
    """A single step, or one return for all: nothing to explain."""
    assert explained_variance(V, jnp.ones(4), MASK) == 0
    one = jnp.ones(1)
    assert explained_variance(one, one, jnp.ones(1, bool)) == 0


def test_padding_does_not_enter_the_explained_variance(strict_dtypes):
    soiled = explained_variance(V.at[3].set(7.0), TARGET.at[3].set(7.0), MASK)
    assert explained_variance(V, TARGET, MASK) == soiled
