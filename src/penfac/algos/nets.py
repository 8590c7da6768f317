"""Multilayer perceptrons: a list of (W, b) pairs."""

from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

# sizes differ from layer to layer, so `_` names none
Layers = list[tuple[Float[Array, "_ _"], Float[Array, " _"]]]

ACTIVATIONS = {
    "leaky_relu": lambda x: jnp.maximum(x, 0.01 * x),
    "relu": lambda x: jnp.maximum(x, 0.0),
    "tanh": jnp.tanh,
}
INITS = ("orthogonal", "small", "uniform", "baselines")
SMALL = 0.01  # the authors' standard deviation of every weight and every bias
NEARLY_0 = 3e-3  # bound of the weights of DDPG's last layers in OpenAI's baselines


def init_layers(
    key: PRNGKeyArray, sizes: tuple[int, ...], init: str, output_gain: float
) -> Layers:
    """Initial weights for the given layer sizes, input and output included.

    `small` is the authors' N(0, 0.01^2) for all weights and biases. `orthogonal` keeps
    the scale of activations and scales the last layer by `output_gain`. `uniform` is
    within 1 / sqrt(fan in), biases too, as in PyTorch. `baselines` is orthogonal,
    except for the last layer, which is uniform within 0.003  (D33).
    """
    keys = jax.random.split(key, 2 * (len(sizes) - 1))
    layers = []
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        if init == "small":
            w = SMALL * jax.random.normal(keys[2 * i], (fan_in, fan_out))
            b = SMALL * jax.random.normal(keys[2 * i + 1], (fan_out,))
        elif init == "uniform":
            bound = fan_in**-0.5
            w = bound * jax.random.uniform(keys[2 * i], (fan_in, fan_out), minval=-1.0)
            b = bound * jax.random.uniform(keys[2 * i + 1], (fan_out,), minval=-1.0)
        elif init == "baselines" and i == len(sizes) - 2:
            shape = (fan_in, fan_out)
            w = NEARLY_0 * jax.random.uniform(keys[2 * i], shape, minval=-1.0)
            b = jnp.zeros(fan_out)
        else:
            last = i == len(sizes) - 2
            gain = output_gain if last else 2**0.5
            orthogonal = jax.nn.initializers.orthogonal(gain)
            w = orthogonal(keys[2 * i], (fan_in, fan_out))
            b = jnp.zeros(fan_out)
        layers.append((w, b))
    return layers


def mlp(layers: Layers, x: Float[Array, "*b i"], activation: str) -> Array:
    """Hidden layers with `activation`, then a linear layer."""
    act = ACTIVATIONS[activation]
    for w, b in layers[:-1]:
        x = act(x @ w + b)
    w, b = layers[-1]
    return x @ w + b
