"""Multilayer perceptrons against loops, and their first weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

import oracles
from penfac.algos.nets import ACTIVATIONS, INITS, SMALL, init_layers, mlp
from penfac.policy import ACTIVATIONS as NUMPY_ACTIVATIONS

SIZES = (5, 16, 8, 2)


def as_float64(layers):
    return [tuple(np.asarray(x, float) for x in pair) for pair in layers]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp_equals_its_layers_one_by_one(activation, key, strict_dtypes):
    """Hidden layers with the activation, the last one linear."""
    layers = init_layers(key, SIZES, "orthogonal", 1.0)
    x = jax.random.normal(key, (7, 5))
    slow, _ = oracles.mlp(as_float64(layers), np.asarray(x, float), activation)
    np.testing.assert_allclose(mlp(layers, x, activation), slow, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_gradient_of_mlp_equals_back_propagation_by_hand(activation, key):
    """d(sum g . out) / d(W, b), float32 against the oracle's loops."""
    layers = init_layers(key, SIZES, "orthogonal", 1.0)
    x, g = jax.random.normal(key, (7, 5)), jax.random.normal(key, (7, 2))
    ours = jax.grad(lambda p: jnp.sum(g * mlp(p, x, activation)))(layers)
    double = as_float64(layers)
    _, seen = oracles.mlp(double, np.asarray(x, float), activation)
    by_hand, _ = oracles.mlp_gradient(double, seen, activation, np.asarray(g, float))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), ours, by_hand
    )


def test_back_propagation_by_hand_equals_finite_differences():
    """The oracle itself: each weight moved a little, in float64."""
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(3, 4)), rng.normal(size=4)),
              (rng.normal(size=(4, 2)), rng.normal(size=2))]  # fmt: skip
    x, g = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    _, seen = oracles.mlp(layers, x, "tanh")
    gradient, at_input = oracles.mlp_gradient(layers, seen, "tanh", g)

    def loss(w=layers[0][0], x=x):
        changed = [(w, layers[0][1]), layers[1]]
        return float(np.sum(g * oracles.mlp(changed, x, "tanh")[0]))

    numeric = oracles.finite_difference(loss, layers[0][0])
    np.testing.assert_allclose(gradient[0][0], numeric, atol=1e-6)
    numeric = oracles.finite_difference(lambda x: loss(x=x), x)
    np.testing.assert_allclose(at_input, numeric, atol=1e-6)


def test_without_hidden_layers_it_is_linear(key, strict_dtypes):
    ((w, b),) = layers = init_layers(key, (5, 2), "small", 1.0)
    x = jax.random.normal(key, (3, 5))
    np.testing.assert_allclose(mlp(layers, x, "relu"), x @ w + b, rtol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_their_definitions(activation):
    """leaky 0.01, relu, tanh; JAX and numpy (the deployed policy) agree to rounding."""
    x = np.linspace(-3, 3, 61, dtype=np.float32)
    slow = oracles.ACTIVATIONS[activation][0](x.astype(float))
    ours = ACTIVATIONS[activation](jnp.asarray(x))
    np.testing.assert_allclose(ours, slow, rtol=1e-6, atol=1e-7)
    deployed = NUMPY_ACTIVATIONS[activation](x)
    np.testing.assert_allclose(deployed, slow, rtol=1e-6, atol=1e-7)
    assert deployed.dtype == np.float32


def test_both_sides_know_the_same_activations():
    assert set(ACTIVATIONS) == set(NUMPY_ACTIVATIONS)


@pytest.mark.parametrize("init", INITS)
def test_fresh_layers_fit_together(init, key):
    """(in, out) weights and (out,) biases, from the first size to the last."""
    shapes = [(w.shape, b.shape) for w, b in init_layers(key, SIZES, init, 1.0)]
    assert shapes == [((5, 16), (16,)), ((16, 8), (8,)), ((8, 2), (2,))]


def test_layers_of_openais_ddpg_end_nearly_at_0(key):
    """Orthogonal with gain sqrt(2), then uniform within 0.003; biases 0."""
    layers = init_layers(key, (16, 16, 200), "baselines", 1.0)
    (w, b), (last, end) = as_float64(layers)
    np.testing.assert_allclose(w.T @ w, 2 * np.eye(16), atol=1e-5)
    assert np.abs(last).max() <= 3e-3
    np.testing.assert_allclose(last.std(), 3e-3 / np.sqrt(3), rtol=0.05)
    assert not b.any()
    assert not end.any()


def test_orthogonal_layers_are_orthogonal_with_their_gains(key):
    """W W' or W' W = gain^2 I: sqrt 2 inside, output_gain at the end; biases 0."""
    layers = init_layers(key, (16, 16, 8, 2), "orthogonal", 0.01)
    for (w, b), gain in zip(layers, (2**0.5, 2**0.5, 0.01), strict=True):
        gram = np.asarray(w.T @ w, float)
        np.testing.assert_allclose(gram, gain**2 * np.eye(len(gram)), atol=1e-5 * gain)
        np.testing.assert_array_equal(b, np.zeros_like(b))


def test_small_layers_are_normal_with_deviation_one_hundredth(key):
    """Weights and biases ~ N(0, 0.01^2), within 4 standard errors."""
    ((w, b), _) = init_layers(key, (60, 500, 1), "small", 1.0)
    for x in (np.ravel(w), np.ravel(b)):
        n = len(x)
        assert abs(x.mean()) < 4 * SMALL / np.sqrt(n)
        assert abs(x.std() - SMALL) < 4 * SMALL / np.sqrt(2 * n)
    assert SMALL == 0.01


@pytest.mark.parametrize("init", INITS)
def test_no_two_layers_share_numbers(init, key):
    """A key is used once: equal shapes, different weights."""
    weights = [w for w, _ in init_layers(key, (6, 6, 6, 6), init, 2**0.5)]
    biases = [b for _, b in init_layers(key, (6, 6, 6, 6), "small", 1.0)]
    for layers in (weights, biases):
        for i, a in enumerate(layers):
            for b in layers[i + 1 :]:
                assert np.abs(a - b).max() > 1e-4


def test_an_input_of_the_wrong_type_is_refused(key):
    """The shapes are executed: integers and missing axes do not slip through."""
    layers = init_layers(key, SIZES, "small", 1.0)
    with pytest.raises(TypeCheckError):
        mlp(layers, jnp.ones((3, 5), jnp.int32), "relu")
    with pytest.raises(TypeCheckError):
        mlp([(b, b) for _, b in layers], jnp.ones((3, 5)), "relu")
