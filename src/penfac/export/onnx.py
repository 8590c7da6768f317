"""A policy as one ONNX graph, from the raw observation to the action within its bounds.

obs float32 [batch, n] -> action [batch, *shape] in the action space's dtype. The graph
does what policy.py does, operation by operation: tiles agree bit for bit, matrix
products up to rounding. A graph cannot raise: for a state with a NaN or an infinity
every action is NaN.
"""

import hashlib
import json
from typing import Any

import numpy as np

from penfac.errors import ConfigError, CorruptFile
from penfac.export.check import Agreement, compare
from penfac.policy import Policy, Tiling, tile_hash_factors, tile_shifts

OPSET, IR = 18, 8  # 18 has BitwiseXor; any runtime since 2023 reads both
WORD = 2**32


def onnx_bytes(policy: Policy) -> bytes:
    """Return the file, weights included."""
    onnx = needed("onnx")
    w, shape = policy.weights, policy.actions.shape
    dtype = policy.actions.low.dtype
    if dtype not in (np.float32, np.float64):
        raise ConfigError(
            f"--onnx: actions of type {dtype}; must be float32 or float64"
        )
    graph = Graph(onnx)
    bad = unusable(graph)
    x = normalised(graph, policy) if w.tiling is None else tiled(graph, policy, bad)
    unit = network(graph, policy, x)
    bad = graph.add("Or", bad, graph.add("IsNaN", unit))
    action = scaled(graph, policy, unit)
    nan = graph.constant(np.array(np.nan, dtype))
    action = graph.add("Where", bad, nan, action)
    if len(shape) != 1:
        sizes = graph.constant(np.array([0, *shape], np.int64))  # 0: the batch size
        action = graph.add("Reshape", action, sizes)
    graph.add("Identity", action, out="action")
    return graph.model(policy).SerializeToString()


def check_onnx(data: bytes, policy: Policy) -> Agreement:
    """Run the graph and compare it with the policy; an error if it differs."""
    session = open_session(data)
    act = lambda obs: session.run(["action"], {"obs": obs})[0]  # noqa: E731
    return compare(act, policy, "--onnx")


def open_session(data: bytes) -> Any:
    """Open an onnxruntime session on one thread: a policy is small."""
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(
            data, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise CorruptFile(
            f"--onnx: onnxruntime refuses the file ({error}); nothing written"
        ) from None


def needed(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(
            '--onnx: {name} is missing; pip install "penfac[onnx]"'
        ) from None


class Graph:
    """The nodes and constants of a graph, named by their number."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(array) if array.ndim else array
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, out: str = "", **more: Any) -> str:
        out = out or f"x{len(self.nodes)}"
        node = self.onnx.helper.make_node(kind, list(inputs), [out], **more)
        self.nodes.append(node)
        return out

    def cast(self, x: str, to: Any) -> str:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
        return self.add("Cast", x, to=kind)

    def between(self, x: str, low: np.ndarray, high: np.ndarray) -> str:
        """As `penfac.policy.between`: unlike Clip, it keeps a NaN."""
        x = self.add("Max", x, self.constant(low))
        return self.add("Min", x, self.constant(high))

    def summed(self, x: str, axis: int) -> str:
        axes = self.constant(np.array([axis], np.int64))
        return self.add("ReduceSum", x, axes, keepdims=0)

    def model(self, policy: Policy) -> Any:
        make, actions = self.onnx.helper, policy.actions
        kind = make.np_dtype_to_tensor_dtype
        n, f = len(policy.weights.mean), np.dtype(np.float32)
        obs = make.make_tensor_value_info("obs", kind(f), ["batch", n])
        action = make.make_tensor_value_info(
            "action", kind(actions.low.dtype), ["batch", *actions.shape]
        )
        graph = make.make_graph(
            self.nodes, "policy", [obs], [action], initializer=self.constants
        )
        model = make.make_model(
            graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=IR
        )
        model.producer_name = "penfac"
        make.set_model_props(model, properties(policy))
        self.onnx.checker.check_model(model)
        return model


def properties(policy: Policy) -> dict[str, str]:
    """The metadata of the file."""
    about = {k: v for k, v in policy.about.items() if isinstance(v, str | int)}
    return {key: str(value) for key, value in about.items()} | {
        "observation_size": str(len(policy.weights.mean)),
        "action_low": json.dumps(policy.actions.low.tolist()),
        "action_high": json.dumps(policy.actions.high.tolist()),
        "policy_sha256": hashlib.sha256(policy.to_bytes()).hexdigest(),
    }


def unusable(graph: Graph) -> str:
    """[batch, 1]: whether a state has a NaN or an infinity."""
    each = graph.add("Or", graph.add("IsNaN", "obs"), graph.add("IsInf", "obs"))
    axes = graph.constant(np.array([1], np.int64))
    some = graph.add("ReduceMax", graph.cast(each, np.float32), axes, keepdims=1)
    return graph.cast(some, np.bool_)


def normalised(graph: Graph, policy: Policy) -> str:
    """x = clip((s - mean) / std) * scale + shift, then the first layer."""
    w = policy.weights
    x = graph.add("Sub", "obs", graph.constant(w.mean))
    x = graph.add("Div", x, graph.constant(w.std))
    if w.clip != np.inf:
        x = graph.between(x, np.array(-w.clip, np.float32), np.array(w.clip, "f"))
    x = graph.add("Mul", x, graph.constant(w.scale))
    x = graph.add("Add", x, graph.constant(w.shift))
    return graph.add("Gemm", x, *map(graph.constant, w.layers[0]))


def network(graph: Graph, policy: Policy, x: str) -> str:
    """Apply all layers but the first, and the output."""
    w = policy.weights
    for layer in w.layers[1:]:
        if w.activation == "tanh":
            x = graph.add("Tanh", x)
        else:
            slope = np.array(0.01 if w.activation == "leaky_relu" else 0, np.float32)
            rest = graph.constant(slope)
            if slope:
                rest = graph.add("Mul", x, rest)
            x = graph.add("Max", x, rest)
        x = graph.add("Gemm", x, *map(graph.constant, layer))
    return graph.add("Tanh", x) if w.output == "tanh" else x


def scaled(graph: Graph, policy: Policy, unit: str) -> str:
    """As ActionScale.to_env: in float64, then clipped in the space's own dtype."""
    actions = policy.actions
    one = graph.constant(np.array(1.0))
    a = graph.cast(unit, np.float64)
    a = graph.between(a, np.array(-1.0), np.array(1.0))
    low, high = map(graph.constant, actions.ends)
    below = graph.add("Mul", low, graph.add("Sub", one, a))
    above = graph.add("Mul", high, graph.add("Add", one, a))
    both = graph.add("Add", below, above)
    out = graph.add("Div", both, graph.constant(np.array(2.0)))
    out = graph.cast(out, actions.low.dtype)
    return graph.between(out, actions.low, actions.high)


# --- tile coding -----------------------------------------------------------------------


def tiled(graph: Graph, policy: Policy, bad: str) -> str:
    """Sum the rows of the first layer for the active tiles."""
    tiling = policy.weights.tiling
    assert tiling is not None  # noqa: S101  for type checkers
    cell = cells(graph, tiling, bad)
    if tiling.tilings * tiling.cells <= tiling.memory:
        side = (tiling.tiles + 1) ** np.arange(len(tiling.low), dtype=np.int64)
        first = np.arange(tiling.tilings, dtype=np.int64) * tiling.cells
        inside = graph.summed(graph.add("Mul", cell, graph.constant(side)), 2)
        on = graph.add("Add", inside, graph.constant(first))
    else:
        on = hashed(graph, tiling, cell)
    matrix, bias = policy.weights.layers[0]
    rows = graph.add("Gather", graph.constant(matrix), on, axis=0)
    return graph.add("Add", graph.summed(rows, 1), graph.constant(bias))


def cells(graph: Graph, tiling: Tiling, bad: str) -> str:
    """[batch, tilings, n]: the position of a state in each grid. A NaN is in no tile;
    it counts as a corner until its action is set to NaN."""
    low, high = np.asarray(tiling.low, "f"), np.asarray(tiling.high, "f")
    x = graph.add("Where", bad, graph.constant(low), "obs")
    x = graph.between(x, low, high)
    x = graph.add("Sub", x, graph.constant(low))
    x = graph.add("Mul", x, graph.constant(np.float32(tiling.tiles) / (high - low)))
    x = graph.add("Unsqueeze", x, graph.constant(np.array([1], np.int64)))
    x = graph.add("Add", x, graph.constant(tile_shifts(tiling)))
    x = graph.add("Floor", x)
    x = graph.between(x, np.array(0, "f"), np.array(tiling.tiles, "f"))
    return graph.cast(x, np.int64)


def hashed(graph: Graph, tiling: Tiling, cell: str) -> str:
    """As `penfac.policy.tile_indices`: 32-bit numbers that overflow, in int64 with
    products below 2^63, because runtimes do not multiply uint32."""
    factors = tile_hash_factors(len(tiling.low)).astype(np.int64)
    grids = np.arange(tiling.tilings, dtype=np.int64) * factors[-1]
    terms = graph.add("Mul", cell, graph.constant(factors[:-1]))
    mixed = graph.add("Add", graph.summed(terms, 2), graph.constant(grids))
    mixed = modulo(graph, mixed, WORD)
    mixed = product(graph, mixed_down(graph, mixed, 15), 2246822519)
    return modulo(graph, mixed_down(graph, mixed, 13), tiling.memory)


def modulo(graph: Graph, x: str, by: int) -> str:
    return graph.add("Mod", x, graph.constant(np.array(by, np.int64)))


def mixed_down(graph: Graph, x: str, bits: int) -> str:
    """x ^ (x >> bits), for 32 bits."""
    word = graph.cast(x, np.uint32)
    far = graph.constant(np.array(bits, np.uint32))
    down = graph.add("BitShift", word, far, direction="RIGHT")
    return graph.cast(graph.add("BitwiseXor", word, down), np.int64)


def product(graph: Graph, x: str, by: int) -> str:
    """x * by mod 2^32, with the upper and the lower 16 bits of x apart."""
    half, times = (graph.constant(np.array(k, np.int64)) for k in (2**16, by))
    high = graph.add("Mul", graph.add("Div", x, half), times)
    high = graph.add("Mul", modulo(graph, high, 2**16), half)
    low = graph.add("Mul", modulo(graph, x, 2**16), times)
    return modulo(graph, graph.add("Add", high, low), WORD)
