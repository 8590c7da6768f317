"""The deterministic policy as numpy arrays: it acts in training and on a robot. It needs
numpy, and safetensors to read and write, but no other file of penfac."""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
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
INPUTS = ("mean", "std", "scale", "shift")  # of PolicyWeights: [n] each


class PolicyFileError(ValueError):
    """A policy file that must not be used."""


class Tiling(NamedTuple):
    """Tile coding: `tilings` grids of `tiles` tiles a side over a box; the features of a
    state are its tiles. Grids with more than `memory` of them share by hashing."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    tilings: int
    tiles: int
    memory: int

    @property
    def cells(self) -> int:
        """The tiles of one grid: one more than `tiles` a side, because grids are shifted."""
        return (self.tiles + 1) ** len(self.low)

    @property
    def size(self) -> int:
        return min(self.tilings * self.cells, self.memory)


def tile_shifts(tiling: Tiling) -> np.ndarray:
    """[tilings, n] in tiles: along the sides, grid k moves by 1, 3, 5, ... times k / tilings
    of a tile: by numbers coprime to `tilings`, so that each side gets every shift."""
    sides, grids = len(tiling.low), tiling.tilings
    odd = [k for k in range(1, 2 * sides * grids + 2, 2) if math.gcd(k, grids) == 1]
    moved = np.arange(grids)[:, None] * np.array(odd[:sides]) % grids
    return (moved / grids).astype(np.float32)


def tile_hash_factors(n: int) -> np.ndarray:
    """Odd 32-bit numbers, one a side and one for the grid, always the same."""
    draws = np.random.Generator(np.random.Philox(0)).integers(0, 2**31, n + 1)
    return (2 * draws + 1).astype(np.uint32)


def tile_indices(obs: Any, tiling: Tiling, xp: Any = np) -> Any:
    """[..., n] to [..., tilings]: the active feature of each grid; a state outside the
    box counts as on its edge. `xp` is numpy, or jax.numpy in training."""
    low, high = np.asarray(tiling.low, "f"), np.asarray(tiling.high, "f")
    per_unit = np.float32(tiling.tiles) / (high - low)
    where = ((xp.clip(obs, low, high) - low) * per_unit)[..., None, :]
    cell = xp.floor(where + tile_shifts(tiling))
    # the upper edge belongs to the last tile of an unshifted grid's extra row
    cell = xp.clip(cell, 0, tiling.tiles).astype(np.uint32)
    grids = np.arange(tiling.tilings, dtype=np.uint32)
    if tiling.tilings * tiling.cells <= tiling.memory:
        side = ((tiling.tiles + 1) ** np.arange(len(low))).astype(np.uint32)
        inside = (cell * side).sum(axis=-1, dtype=np.uint32)
        return (inside + grids * np.uint32(tiling.cells)).astype(np.int32)
    factors = tile_hash_factors(len(low))
    mixed = (cell * factors[:-1]).sum(axis=-1, dtype=np.uint32) + grids * factors[-1]
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519)
    mixed = (mixed ^ (mixed >> np.uint32(13))) % np.uint32(tiling.memory)
    return mixed.astype(np.int32)


class PolicyWeights(NamedTuple):
    """mu(s) = output(... activation(W x + b) ...) in [-1, 1], where x is the tiles of s or
    clip((s - mean) / std, -clip, clip) * scale + shift."""

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
    spread: Any = ()  # SAC: one more last layer, whose output is log sigma


def between(x: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """np.clip in place, at a fifth of its cost for one state."""
    np.maximum(x, low, out=x)
    return np.minimum(x, high, out=x)


def mean_action(w: PolicyWeights, obs: np.ndarray) -> np.ndarray:
    """mu(s), in [-1, 1] by tanh; the action of a linear policy is not clipped yet."""
    act, ((matrix, bias), *rest) = ACTIVATIONS[w.activation], w.layers
    if w.tiling is not None:
        x = matrix[tile_indices(obs, w.tiling)].sum(axis=-2)
    else:
        x = obs - w.mean  # a fresh array: what follows may work in place
        x /= w.std
        if w.clip != np.inf:
            x = between(x, -w.clip, w.clip)
        if not w.plain:
            x *= w.scale
            x += w.shift
        x = x.dot(matrix)  # as @, at half its cost for one state
    x += bias
    for matrix, bias in rest:
        x = act(x).dot(matrix)
        x += bias
    return np.tanh(x) if w.output == "tanh" else x


@dataclass(frozen=True)
class ActionScale:
    """From [-1, 1]^m to the environment's box: its ends are exact and never exceeded."""

    low: np.ndarray  # [m], in the space's own dtype
    high: np.ndarray
    shape: tuple[int, ...]

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        return self.low.astype(np.float64), self.high.astype(np.float64)

    def to_env(self, action: np.ndarray, inside=False, clip=True) -> np.ndarray:
        """[..., m] to [..., *shape] in the space's dtype. Actions outside [-1, 1] are
        clipped, or scaled too if `clip` is False; `inside` says that there are none."""
        a = action.astype(np.float64)
        if clip and not inside:
            between(a, -1.0, 1.0)
        below = (1.0 - a) * self.ends[0]  # (low (1 - a) + high (1 + a)) / 2, in place
        a += 1.0
        a *= self.ends[1]
        a += below
        a *= 0.5
        out = a.astype(self.low.dtype)
        if clip:  # rounding to the space's dtype may leave the box by one unit
            between(out, self.low, self.high)
        return out if len(self.shape) == 1 else out.reshape(*a.shape[:-1], *self.shape)


@dataclass(frozen=True)
class Policy:
    """A controller: `policy(obs)` is the action for one observation or a batch, always
    inside the bounds and never NaN; ValueError for an observation that is not finite."""

    weights: PolicyWeights
    actions: ActionScale
    about: dict[str, Any]  # environment, algorithm, seed, step: for people

    def __post_init__(self) -> None:
        plain = bool(np.all(self.weights.scale == 1) and not np.any(self.weights.shift))
        object.__setattr__(self, "weights", self.weights._replace(plain=plain))

    def __call__(self, obs: Any) -> np.ndarray:
        rows = np.asarray(obs, np.float32)
        n = len(self.weights.mean)
        if rows.shape[-1:] != (n,):
            rows = rows.reshape(-1) if rows.size == n else rows.reshape(len(rows), -1)
        if rows.shape[-1] != n:
            shape = np.shape(obs)
            raise ValueError(f"observation of shape {shape}: must hold {n} numbers")
        # first a sum of squares, at a third of the cost: finite for all but huge states
        if not math.isfinite(np.vdot(rows, rows)) and not np.isfinite(rows).all():
            raise ValueError("observation: must be finite, has a NaN or an infinity")
        action = mean_action(self.weights, rows)
        if math.isnan(np.vdot(action, action)):
            raise ValueError("observation: too large for float32")
        return self.actions.to_env(action, inside=self.weights.output == "tanh")

    def predict(self, obs: Any, *_: Any, deterministic: bool = True) -> Any:
        """Return (action, None), as Stable-Baselines3 does."""
        if not deterministic:
            raise ValueError("deterministic=False: a policy has no noise, a model has")
        return self(obs), None

    def to_bytes(self) -> bytes:
        """One safetensors file that describes itself."""
        from safetensors.numpy import save

        tensors, about = self._tensors(), json.dumps(self.description(), sort_keys=True)
        # one entry: with two, their order in the file would be left to chance
        signed = json.dumps({"policy": about, "sha256": _digest(tensors, about)})
        return save(tensors, metadata={"penfac": signed})

    def description(self) -> dict[str, Any]:
        """policy.json, for people; the safetensors file alone is enough."""
        w = self.weights
        more = {"tiling": w.tiling and w.tiling._asdict(), "spread": len(w.spread)}
        return {
            "format": 1 if w.tiling is None else 2,
            "activation": w.activation,
            "output": w.output,
            "clip": None if w.clip == np.inf else float(w.clip),
            "layers": len(w.layers),
            "obs_dim": len(w.mean),
            "action_shape": list(self.actions.shape),
            "action_low": [float(x) for x in self.actions.low],
            "action_high": [float(x) for x in self.actions.high],
            "about": self.about,
        } | {name: value for name, value in more.items() if value}

    def _tensors(self) -> dict[str, np.ndarray]:
        w = self.weights
        named = {name: getattr(w, name) for name in INPUTS}
        for i, (matrix, bias) in enumerate((*w.layers, *w.spread)):
            named |= {f"layers.{i}.w": matrix, f"layers.{i}.b": bias}
        arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in named.items()}
        return arrays | {"low": self.actions.low, "high": self.actions.high}

    @staticmethod
    def load(folder: str | Path) -> "Policy":
        """From a `policy` folder, the run folder above it, or the file itself."""
        from safetensors import safe_open

        name = "policy.safetensors"
        places = [Path(folder, *inner) for inner in ((), (name,), ("policy", name))]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            seeds = ", ".join(sorted(p.name for p in Path(folder).glob("seed-*")))
            why = f"has {seeds}: give one of these" if seeds else f"has no {name}"
            raise PolicyFileError(f"{folder}: {why}")
        try:
            with safe_open(str(path), framework="numpy") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                return _restore(tensors, file.metadata() or {})
        except PolicyFileError as error:
            raise PolicyFileError(f"{path}: {error}") from None
        except Exception as error:  # a file that someone made up may run into any
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise PolicyFileError(f"{path}: is not a penfac policy ({why})") from None


def _digest(tensors: dict[str, np.ndarray], about: str) -> str:
    named = sorted(tensors.items())
    parts = (f"{k}{x.dtype}{x.shape}".encode() + x.tobytes() for k, x in named)
    return hashlib.sha256(about.encode() + b"".join(parts)).hexdigest()


def _restore(tensors: dict[str, np.ndarray], metadata: dict) -> Policy:
    """Check everything, then build."""
    signed = json.loads(metadata["penfac"])
    if signed["sha256"] != _digest(tensors, signed["policy"]):
        raise PolicyFileError("is damaged (the sha256 does not match)")
    d = json.loads(signed["policy"])
    spread, counts = d.get("spread", 0), (d["format"], d["layers"], *d["action_shape"])
    if any(type(n) is not int or not 0 < n <= 10**8 for n in (*counts, spread + 1)):
        raise ValueError("a count is not from 1 to 1e8")
    if d["format"] > FORMAT:
        raise PolicyFileError(f"has format {d['format']}; penfac reads up to {FORMAT}")
    if d["activation"] not in ACTIVATIONS or d["output"] not in ("tanh", "linear"):
        raise PolicyFileError("has an unknown activation or output")
    if odd := [key for key, x in tensors.items() if not np.all(np.isfinite(x))]:
        raise PolicyFileError(f"{odd[0]} has a non-finite number")
    mean, std, scale, shift = (tensors[name] for name in INPUTS)
    clip = np.inf if d["clip"] is None else float(d["clip"])
    names = [f"layers.{i}." for i in range(min(d["layers"] + spread, len(tensors)))]
    pairs = [(tensors[name + "w"], tensors[name + "b"]) for name in names]
    tiling = _tiling(d["tiling"], len(mean)) if "tiling" in d else None
    form = (d["activation"], d["output"], tiling, False, pairs[d["layers"] :])
    weights = PolicyWeights(mean, std, clip, scale, shift, pairs[: d["layers"]], *form)
    actions = ActionScale(tensors["low"], tensors["high"], tuple(d["action_shape"]))
    if not (_fits(weights, actions) and clip > 0 and isinstance(d["about"], dict)):
        raise PolicyFileError("the sizes of the layers do not match")
    return Policy(weights, actions, d["about"])


def _fits(w: PolicyWeights, actions: ActionScale) -> bool:
    """Whether every array has the shape that the others need."""
    sizes = [w.tiling.size if w.tiling else len(w.mean), *(len(b) for _, b in w.layers)]
    chained = [matrix.shape for matrix, _ in w.layers] == list(pairwise(sizes))
    alike = all(getattr(w, name).shape == (len(w.mean),) for name in INPUTS)
    ends = {actions.low.shape, actions.high.shape, (math.prod(actions.shape),)}
    lasts = {(m.shape, b.shape) for m, b in (*w.layers[-1:], *w.spread)}
    return len(lasts) == 1 and chained and alike and ends == {(sizes[-1],)}


def _tiling(d: dict[str, Any], obs_dim: int) -> Tiling:
    sides = tuple(map(float, d["low"])), tuple(map(float, d["high"]))
    counts = [d[key] for key in ("tilings", "tiles", "memory")]
    whole = all(type(n) is int and n > 0 for n in counts) and max(counts[:2]) <= 1024
    ordered = all(a < b for a, b in zip(*sides, strict=True))
    if not whole or not ordered or len(sides[0]) != obs_dim:
        raise PolicyFileError("the tiling does not fit the observation")
    return Tiling(*sides, *counts)
