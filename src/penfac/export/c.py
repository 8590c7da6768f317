"""A policy as one C99 header: it needs math.h, allocates no memory and keeps no state.

`<name>_act` computes what policy.py computes, in float, and scales the action in
double. Tiles agree bit for bit. A C function cannot raise: for a state with a NaN or an
infinity every action is NaN.
"""

import hashlib
import re
from typing import Any

import numpy as np

from penfac.errors import ConfigError
from penfac.policy import Policy, Tiling, tile_hash_factors, tile_shifts

ACTIVATIONS = {
    "leaky_relu": "x[i] < 0.01f * x[i] ? 0.01f * x[i] : x[i]",
    "relu": "x[i] < 0.0f ? 0.0f : x[i]",
    "tanh": "tanhf(x[i])",
}


def c_name(environment: str) -> str:
    """Return the default name of a header: hopper_v5 for Hopper-v5."""
    last = environment.rpartition(":")[2].rpartition("/")[2]
    word = re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_")
    return word if re.match("[a-z]", word) else f"policy_{word}".rstrip("_")


def c_header(policy: Policy, name: str) -> str:
    """Return the whole file."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        rule = "must be a C name: a letter, then letters, digits and _"
        raise ConfigError(f"--name {name}: {rule}")
    kinds = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
    kind = kinds.get(policy.actions.low.dtype)
    if kind is None:
        dtype = policy.actions.low.dtype
        raise ConfigError(f"--c: actions of type {dtype}; must be float32 or float64")
    parts = [
        top(policy, name, kind),
        opening(policy, name, kind),
        "",
        *(tiles(policy) if policy.weights.tiling else inputs(policy)),
        *layers(policy),
        *output(policy, kind),
        "}",
        "",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def top(policy: Policy, name: str, kind: str) -> str:
    """Return the comment at the top, and the sizes of both arrays."""
    n, m = len(policy.weights.mean), len(policy.actions.low)
    about, big = policy.about, name.upper()
    lines = [
        "A policy learned by penfac, in C99 and C++11. Made by `penfac export`.",
        "",
        *(f"{key}: {about[key]}" for key in WORTH_SAYING if key in about),
        f"observation: {n} numbers, raw, as the environment gives them",
        f"action: {m} numbers, always inside these bounds:",
        *bounds(policy),
        f"sha256 of policy.safetensors: {hashlib.sha256(policy.to_bytes()).hexdigest()}",
        "",
        f"    float obs[{big}_INPUTS];",
        f"    {kind} action[{big}_OUTPUTS];",
        f"    {name}_act(obs, action);",
        "",
        "The same observation has the same action, in any thread. If the observation has",
        "a NaN or an infinity every action is NAN: check before you move a motor.",
    ]
    comment = "\n".join(f" * {plain(line)}".rstrip() for line in lines)
    return f"/*\n{comment}\n */"


WORTH_SAYING = ("environment", "algorithm", "seed", "step", "penfac")


def plain(text: str) -> str:
    """Return text that is safe in a C comment: one line of ASCII, without an end or a
    start of a comment, and without trigraphs."""
    text = text.encode("ascii", "backslashreplace").decode().replace("?", "_")
    return " ".join(text.splitlines()).replace("*/", "* /").replace("/*", "/ *")


def bounds(policy: Policy) -> list[str]:
    pairs = zip(policy.actions.low, policy.actions.high, strict=True)
    return [f"    {k}: {low:.9g} to {high:.9g}" for k, (low, high) in enumerate(pairs)]


def opening(policy: Policy, name: str, kind: str) -> str:
    big = name.upper()
    n, m = len(policy.weights.mean), len(policy.actions.low)
    return f"""#ifndef {big}_POLICY_H
#define {big}_POLICY_H

#include <math.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "without -ffast-math: a NaN must be noticed, and tiles found to the bit"
#endif

#define {big}_INPUTS {n}
#define {big}_OUTPUTS {m}

static inline void {name}_act(const float *obs, {kind} *action) {{
    float x[{width(policy)}], y[{width(policy)}];
    int i, j;

    for (i = 0; i < {n}; i++)
        if (!(obs[i] - obs[i] == 0.0f)) {{
            for (j = 0; j < {m}; j++) action[j] = ({kind})NAN;
            return;
        }}"""


def width(policy: Policy) -> int:
    """The width of the widest array between observation and action."""
    outputs = [len(bias) for _, bias in policy.weights.layers]
    return max(len(policy.weights.mean), *outputs)


# --- from the observation to the first layer -----------------------------------------------


def inputs(policy: Policy) -> list[str]:
    """Normalise, x = clip((s - mean) / std) * scale + shift, then apply the first
    layer."""
    w = policy.weights
    named = {"mean": w.mean, "std": w.std, "scale": w.scale, "shift": w.shift}
    lines = ["    {"]
    lines += [array(f"in_{key}", value) for key, value in named.items()]
    lines += [
        f"        for (i = 0; i < {len(w.mean)}; i++) {{",
        "            x[i] = (obs[i] - in_mean[i]) / in_std[i];",
    ]
    if w.clip != np.inf:
        c = number(np.float32(w.clip))
        lines += [f"            x[i] = x[i] < -{c} ? -{c} : x[i] > {c} ? {c} : x[i];"]
    lines += [
        "            x[i] = x[i] * in_scale[i] + in_shift[i];",
        "        }",
        "    }",
    ]
    return lines + product(*w.layers[0])


def tiles(policy: Policy) -> list[str]:
    """Sum the rows of the first layer for the active tiles."""
    w = policy.weights
    tiling: Any = w.tiling
    matrix, bias = w.layers[0]
    low, high = np.asarray(tiling.low, "f"), np.asarray(tiling.high, "f")
    n, out = len(low), len(bias)
    hashed = tiling.tilings * tiling.cells > tiling.memory
    side = (tiling.tiles + 1) ** np.arange(n)
    factors = tile_hash_factors(n)[:-1] if hashed else side
    return [
        "    {",
        array("low", low),
        array("high", high),
        array("per_unit", np.float32(tiling.tiles) / (high - low)),
        array("shift", tile_shifts(tiling)),
        array("factor", factors.astype(np.uint32), "uint32_t"),
        array("w", matrix),
        array("b", bias),
        "        volatile float where; /* rounded after each step, never fused */",
        f"        for (j = 0; j < {out}; j++) y[j] = 0.0f;",
        f"        for (j = 0; j < {tiling.tilings}; j++) {{",
        "            uint32_t on = 0;",
        f"            for (i = 0; i < {n}; i++) {{",
        "                where = obs[i] < low[i] ? low[i] : obs[i] > high[i] ? high[i] : obs[i];",
        "                where = where - low[i];",
        "                where = where * per_unit[i];",
        f"                where = where + shift[j * {n} + i];",
        f"                if (where > {tiling.tiles}.0f) where = {tiling.tiles}.0f;",
        "                on += (uint32_t)where * factor[i];",
        "            }",
        *(hash_of(tiling) if hashed else [f"            on += {tiling.cells}u * (uint32_t)j;"]),
        f"            for (i = 0; i < {out}; i++) y[i] += w[on * {out}u + (uint32_t)i];",
        "        }",
        f"        for (j = 0; j < {out}; j++) x[j] = y[j] + b[j];",
        "    }",
    ]  # fmt: skip


def hash_of(tiling: Tiling) -> list[str]:
    """Hash a tile as `penfac.policy.tile_indices` does."""
    last = tile_hash_factors(len(tiling.low))[-1]
    return [
        f"            on += {last}u * (uint32_t)j;",
        "            on = (on ^ (on >> 15)) * 2246822519u;",
        f"            on = (on ^ (on >> 13)) % {tiling.memory}u;",
    ]


# --- the network and the action --------------------------------------------------------


def layers(policy: Policy) -> list[str]:
    """Apply all layers but the first, each after the activation."""
    w, lines = policy.weights, []
    for matrix, bias in w.layers[1:]:
        act = ACTIVATIONS[w.activation]
        lines += [f"    for (i = 0; i < {len(matrix)}; i++) x[i] = {act};"]
        lines += product(matrix, bias)
    return lines


def product(matrix: np.ndarray, bias: np.ndarray) -> list[str]:
    """x = x W + b, one row of W at a time, so that compilers vectorise it."""
    n, out = matrix.shape
    return [
        "    {",
        array("w", matrix),
        array("b", bias),
        f"        for (j = 0; j < {out}; j++) y[j] = 0.0f;",
        f"        for (i = 0; i < {n}; i++)",
        f"            for (j = 0; j < {out}; j++) y[j] += x[i] * w[i * {out} + j];",
        f"        for (j = 0; j < {out}; j++) x[j] = y[j] + b[j];",
        "    }",
    ]


def output(policy: Policy, kind: str) -> list[str]:
    """Scale as ActionScale.to_env: a NaN stays NaN, all else is within the bounds."""
    m = len(policy.actions.low)
    unit = "tanhf(x[j])" if policy.weights.output == "tanh" else "x[j]"
    return [
        "    {",
        array("low", policy.actions.low, kind),
        array("high", policy.actions.high, kind),
        f"        for (j = 0; j < {m}; j++) {{",
        f"            double a = (double){unit};",
        "            double below, above;",
        f"            {kind} out;",
        "            a = a < -1.0 ? -1.0 : a > 1.0 ? 1.0 : a;",
        "            below = (double)low[j] * (1.0 - a);",
        "            above = (double)high[j] * (1.0 + a);",
        f"            out = ({kind})((below + above) / 2.0);",
        "            action[j] = out < low[j] ? low[j] : out > high[j] ? high[j] : out;",
        "        }",
        "    }",
    ]  # fmt: skip


def array(name: str, values: np.ndarray, kind: str = "float") -> str:
    """Write a constant array, eight numbers per line."""
    flat = [number(x) for x in np.ravel(values)]
    lines = [", ".join(flat[k : k + 8]) for k in range(0, len(flat), 8)]
    inner = ",\n            ".join(lines)
    return (
        f"        static const {kind} {name}[{len(flat)}] = {{\n            {inner}}};"
    )


def number(value: Any) -> str:
    """Write a number with the digits that give the same bits when read."""
    if value.dtype.kind == "u":
        return f"{value}u"
    digits, end = (9, "f") if value.dtype.itemsize == 4 else (17, "")
    text = f"{value:.{digits}g}"
    return (text if re.search(r"[.e]", text) else f"{text}.0") + end
