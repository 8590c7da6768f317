"""The deterministic policy as numpy arrays: it acts here, in training and on a robot.

This file needs numpy, and safetensors to read and write; nothing else of ours.
"""

import hashlib
import json
import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT = 2  # 2: may be tile-coded
ACTIVATIONS = {
    "leaky_relu": lambda x: np.maximum(x, np.float32(0.01) * x),
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "tanh": np.tanh,
}
OUTPUTS = ("tanh", "linear")


class PolicyFileError(ValueError):
    """A policy file that must not be used."""


class Tiling(NamedTuple):
    """So many grids of so many tiles a side over a box; a state is told by the one tile
    of each grid that it lies in. Grids that need more features than `memory` share them.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    tilings: int
    tiles: int
    memory: int

    @property
    def cells(self) -> int:
        """Of one grid: a side has one tile more than `tiles`, for the shift."""
        return (self.tiles + 1) ** len(self.low)

    @property
    def size(self) -> int:
        """How many features there are."""
        return min(self.tilings * self.cells, self.memory)


def tile_shifts(tiling: Tiling) -> np.ndarray:
    """[tilings, n] in tiles: grid k is moved by k / tilings of a tile along the first
    side, three times that along the second, five times along the third, and so on through
    the odd numbers that share no factor with `tilings`: every side gets every shift, and
    no two grids are shifted along one diagonal."""
    sides, grids = len(tiling.low), tiling.tilings
    odd = [k for k in range(1, 2 * sides * grids + 2, 2) if math.gcd(k, grids) == 1]
    moved = np.arange(grids)[:, None] * np.array(odd[:sides]) % grids
    return (moved / grids).astype(np.float32)


def tile_hash_factors(n: int) -> np.ndarray:
    """Odd 32-bit numbers, one a side and one for the grid, always the same."""
    draws = np.random.Generator(np.random.Philox(0)).integers(0, 2**31, n + 1)
    return (2 * draws + 1).astype(np.uint32)


def tile_indices(obs: Any, tiling: Tiling, xp: Any = np) -> Any:
    """[..., n] to [..., tilings]: which feature of each grid is on; a state outside the
    box counts as on its edge. `xp` is numpy, or jax.numpy in training."""
    low, high = np.asarray(tiling.low, "f"), np.asarray(tiling.high, "f")
    per_unit = np.float32(tiling.tiles) / (high - low)
    where = (xp.clip(obs, low, high) - low) * per_unit
    cell = xp.floor(where[..., None, :] + tile_shifts(tiling))
    # the upper edge belongs to the last tile of an unshifted grid's extra row
    cell = xp.clip(cell, 0, tiling.tiles).astype(np.uint32)
    grids = np.arange(tiling.tilings, dtype=np.uint32)
    if tiling.tilings * tiling.cells <= tiling.memory:
        side = (tiling.tiles + 1) ** np.arange(len(low))
        inside = (cell * side.astype(np.uint32)).sum(axis=-1, dtype=np.uint32)
        return (inside + grids * np.uint32(tiling.cells)).astype(np.int32)
    factors = tile_hash_factors(len(low))
    mixed = (cell * factors[:-1]).sum(axis=-1, dtype=np.uint32) + grids * factors[-1]
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519)
    mixed = (mixed ^ (mixed >> np.uint32(13))) % np.uint32(tiling.memory)
    return mixed.astype(np.int32)


class PolicyWeights(NamedTuple):
    """mu(s) = output(... activation(W x + b) ...) in [-1, 1], with

    x = clip((s - mean) / std, -clip, clip) * scale + shift, or the tiles that s lies in.
    """

    mean: np.ndarray
    std: np.ndarray
    clip: float
    scale: np.ndarray
    shift: np.ndarray
    layers: list[tuple[np.ndarray, np.ndarray]]  # (W [in, out], b [out])
    activation: str
    output: str
    tiling: Tiling | None = None
    plain: bool = False  # the scale is 1 and the shift 0: they may be left out


def between(x: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """np.clip of an array of one's own, in place, at a fifth of its cost for one state."""
    np.maximum(x, low, out=x)
    return np.minimum(x, high, out=x)


def mean_action(weights: PolicyWeights, obs: np.ndarray) -> np.ndarray:
    """mu(s), in [-1, 1] by tanh; a linear policy's answer is not yet clipped."""
    w = weights
    act = ACTIVATIONS[w.activation]
    if w.tiling is not None:
        matrix, bias = w.layers[0]
        x = matrix[tile_indices(obs, w.tiling)].sum(axis=-2) + bias
        rest = w.layers[1:]
    else:
        x = obs - w.mean  # a fresh array: what follows may work in place
        x /= w.std
        if w.clip != np.inf:
            x = between(x, -w.clip, w.clip)
        if not w.plain:
            x *= w.scale
            x += w.shift
        matrix, bias = w.layers[0]
        x = x.dot(matrix)  # as @, at half its cost for one state
        x += bias
        rest = w.layers[1:]
    for matrix, bias in rest:
        x = act(x).dot(matrix)
        x += bias
    return np.tanh(x) if w.output == "tanh" else x


@dataclass(frozen=True)
class ActionScale:
    """From [-1, 1]^m to the environment's own box, ends exact and never left."""

    low: np.ndarray  # [m], in the space's own dtype
    high: np.ndarray
    shape: tuple[int, ...]
    ends: tuple[np.ndarray, np.ndarray] = field(init=False, repr=False)  # in float64

    def __post_init__(self) -> None:
        ends = (self.low.astype(np.float64), self.high.astype(np.float64))
        object.__setattr__(self, "ends", ends)

    def to_env(
        self, action: np.ndarray, inside: bool = False, clip: bool = True
    ) -> np.ndarray:
        """[..., m] to [..., *shape] in the space's dtype; what is not `inside` [-1, 1]
        is taken to its end, or without `clip` scaled like the rest."""
        a = action.astype(np.float64)
        if clip and not inside:
            between(a, -1.0, 1.0)
        low, high = self.ends
        below = 1.0 - a  # (low (1 - a) + high (1 + a)) / 2, in place
        below *= low
        a += 1.0
        a *= high
        a += below
        a *= 0.5
        out = a.astype(self.low.dtype)
        if clip:  # rounding to the space's dtype may leave the box by one unit
            between(out, self.low, self.high)
        flat = len(self.shape) == 1
        return out if flat else out.reshape(*action.shape[:-1], *self.shape)


@dataclass(frozen=True)
class Policy:
    """A controller: `policy(obs)` for one observation or a batch, always the same answer,
    always inside the bounds; ValueError where there is none, never a NaN."""

    weights: PolicyWeights
    actions: ActionScale
    about: dict[str, Any]  # environment, algorithm, seed, step: for people

    def __post_init__(self) -> None:
        w = self.weights
        plain = bool(np.all(w.scale == 1) and not np.any(w.shift))
        object.__setattr__(self, "weights", w._replace(plain=plain))

    def __call__(self, obs: Any) -> np.ndarray:
        rows = np.asarray(obs, np.float32)
        n = len(self.weights.mean)
        if rows.shape[-1:] != (n,):
            rows = rows.reshape(-1) if rows.size == n else rows.reshape(len(rows), -1)
        if rows.shape[-1] != n:
            raise ValueError(
                f"observation of shape {np.shape(obs)}: must hold {n} numbers"
            )
        # a sum of squares is finite for all but huge states, at a third of the cost
        if not math.isfinite(np.vdot(rows, rows)) and not np.isfinite(rows).all():
            raise ValueError("observation: must be finite, has a NaN or an infinity")
        action = mean_action(self.weights, rows)
        if math.isnan(np.vdot(action, action)):
            raise ValueError("observation: too large for float32")
        return self.actions.to_env(action, inside=self.weights.output == "tanh")

    def to_bytes(self) -> bytes:
        """One safetensors file that says everything about itself."""
        from safetensors.numpy import save

        tensors = _tensors(self)
        about = json.dumps(_description(self), sort_keys=True)
        digest = _digest(tensors, about)
        # one entry: with two, their order in the file would be left to chance
        signed = json.dumps({"policy": about, "sha256": digest})
        return save(tensors, metadata={"penfac": signed})

    def description(self) -> dict[str, Any]:
        """What policy.json shows to people; the safetensors file alone is enough."""
        return _description(self)

    @staticmethod
    def load(folder: str | Path) -> "Policy":
        """From a `policy` folder, the run folder above it, or the file itself."""
        from safetensors import SafetensorError, safe_open

        path = _find(Path(folder))
        try:
            with safe_open(str(path), framework="numpy") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (
            OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError
        ) as error:  # fmt: skip
            raise PolicyFileError(
                f"{path}: is not a safetensors file ({error})"
            ) from None
        return _restore(path, tensors, metadata)


def _find(path: Path) -> Path:
    for candidate in (
        path,
        path / "policy.safetensors",
        path / "policy" / "policy.safetensors",
    ):
        if candidate.is_file():
            return candidate
    raise PolicyFileError(f"{path}: has no policy.safetensors")


def _tensors(policy: Policy) -> dict[str, np.ndarray]:
    w = policy.weights
    named = {"mean": w.mean, "std": w.std, "scale": w.scale, "shift": w.shift}
    for i, (matrix, bias) in enumerate(w.layers):
        named |= {f"layers.{i}.w": matrix, f"layers.{i}.b": bias}
    arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in named.items()}
    return arrays | {"low": policy.actions.low, "high": policy.actions.high}


def _description(policy: Policy) -> dict[str, Any]:
    w = policy.weights
    return {
        "format": 1 if w.tiling is None else 2,
        "activation": w.activation,
        "output": w.output,
        "clip": None if w.clip == np.inf else float(w.clip),
        "layers": len(w.layers),
        "obs_dim": len(w.mean),
        "action_shape": list(policy.actions.shape),
        "action_low": [float(x) for x in policy.actions.low],
        "action_high": [float(x) for x in policy.actions.high],
        "about": policy.about,
    } | ({} if w.tiling is None else {"tiling": w.tiling._asdict()})


def _digest(tensors: dict[str, np.ndarray], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for key in sorted(tensors):
        array = tensors[key]
        digest.update(f"{key}{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _restore(path: Path, tensors: dict[str, np.ndarray], metadata: dict) -> Policy:
    """Check everything, then build."""
    try:
        signed = json.loads(metadata["penfac"])
        about = signed["policy"]
        if signed["sha256"] != _digest(tensors, about):
            raise PolicyFileError(f"{path}: is damaged (the sha256 does not match)")
        return _build(path, tensors, json.loads(about))
    except PolicyFileError:
        raise
    except KeyError as error:
        raise PolicyFileError(
            f"{path}: is not a penfac policy (it lacks {error})"
        ) from None
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PolicyFileError(f"{path}: is not a penfac policy ({error})") from None


def _build(path: Path, tensors: dict[str, np.ndarray], d: dict[str, Any]) -> Policy:
    if d["format"] > FORMAT:
        raise PolicyFileError(
            f"{path}: has format {d['format']}; this penfac reads up to {FORMAT}"
        )
    if d["activation"] not in ACTIVATIONS or d["output"] not in OUTPUTS:
        raise PolicyFileError(f"{path}: has an unknown activation or output")
    for key, array in tensors.items():
        if not np.all(np.isfinite(array)):
            raise PolicyFileError(f"{path}: {key} has a non-finite number")
    layers = [
        (tensors[f"layers.{i}.w"], tensors[f"layers.{i}.b"]) for i in range(d["layers"])
    ]
    weights = PolicyWeights(
        mean=tensors["mean"],
        std=tensors["std"],
        clip=np.inf if d["clip"] is None else float(d["clip"]),
        scale=tensors["scale"],
        shift=tensors["shift"],
        layers=layers,
        activation=d["activation"],
        output=d["output"],
        tiling=_tiling(d["tiling"]) if "tiling" in d else None,
    )
    shape = tuple(d["action_shape"])
    actions = ActionScale(tensors["low"], tensors["high"], shape)
    tiling = weights.tiling
    inputs = len(weights.mean) if tiling is None else tiling.size
    if tiling and not (len(tiling.low) == len(tiling.high) == len(weights.mean)):
        raise PolicyFileError(f"{path}: the sizes of tiling and observation differ")
    sizes = [inputs, *(len(b) for _, b in layers)]
    fits = [m.shape for m, _ in layers] == list(pairwise(sizes)) and layers
    rows = (weights.mean, weights.std, weights.scale, weights.shift)
    fits = fits and all(x.shape == weights.mean.shape for x in rows)
    ends = (actions.low, actions.high, np.empty(math.prod(shape)))
    if not (fits and all(x.shape == (sizes[-1],) for x in ends)):
        raise PolicyFileError(f"{path}: the sizes of the layers do not match")
    return Policy(weights, actions, d["about"])


def _tiling(d: dict[str, Any]) -> Tiling:
    sides = tuple(map(float, d["low"])), tuple(map(float, d["high"]))
    counts = [int(d[key]) for key in ("tilings", "tiles", "memory")]
    if min(counts) < 1 or not all(a < b for a, b in zip(*sides, strict=True)):
        raise ValueError("the tiling has no tiles")
    return Tiling(*sides, *counts)
