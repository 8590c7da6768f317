"""Files that are well-formed and wrong: types, values, names, depth, signed again."""

import csv
import hashlib
import io
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save

from penfac.policy import _digest
from penfac.runs import checkpoints
from penfac.training import bundle

Change = Callable[[Path, random.Random], None]
JUNK: list[Any] = [
    None, True, -1, 0, 2.5, 1e308, 10**30, "junk", "", [], {}, ["junk"], {"junk": 1},
    "../../outside/evil", "/etc/passwd", "\x1b[2J\x1b[31mred", "<img src=x onerror=alert(1)>",
    "__main__:Evil-v0", "venv.__main__:Evil-v0", "x" * 100_000, float("nan"), "a\nb\r\n",
]  # fmt: skip
GONE = object()
# words about a run for people: any text is as good as another
NOTES = ("penfac", "created", "command", "versions", "study", "arm", "preset", "about")


# --- JSON ----------------------------------------------------------------------------------


def spots(value: Any, path: tuple = ()) -> list[tuple]:
    """The place of every value in a document."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    below = [spot for key, each in inner for spot in spots(each, (*path, key))]
    return [path, *below] if path else below


def put(document: Any, spot: tuple, value: Any) -> None:
    for key in spot[:-1]:
        document = document[key]
    if value is GONE:
        del document[spot[-1]]
    else:
        document[spot[-1]] = value


def forged(document: Any, rng: random.Random) -> Any:
    """One value of a document is another."""
    spot = rng.choice(spots(document))
    value = rng.choice([*JUNK, GONE])
    if set(spot) & set(NOTES) and isinstance(value, str | int | float):
        value = rng.choice([None, [], {"junk": [1]}, GONE])
    put(document, spot, value)
    return document


def forge_json(path: Path, rng: random.Random) -> None:
    document = forged(json.loads(path.read_text()), rng)
    path.write_text(json.dumps(document))


def deep_json(path: Path, rng: random.Random) -> None:
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}")])
    path.write_text(opening * 100_000 + "1" + closing * 100_000)


def other_json(path: Path, rng: random.Random) -> None:
    path.write_text(rng.choice(["[]", "null", "3", '"format"', "{}", "[1, 2]", "NaN"]))


def deep_key(path: Path, rng: random.Random) -> None:
    """All is there, and beside it a value that no parser's stack holds."""
    text = path.read_text().rstrip()
    path.write_text(text[:-1] + ', "note": ' + "[" * 100_000 + "]" * 100_000 + "}")


# --- checkpoints, policies and bundles, signed again ---------------------------------------


def sealed_state(path: Path, rng: random.Random) -> None:
    """state.json with another value and the right seal."""
    document = json.loads(path.read_text())
    kept = {key: document[key] for key in ("sha256", "bytes")}
    document = forged(document, rng)
    if rng.random() < 0.8:
        document |= kept
    document["seal"] = checkpoints.seal(document)
    path.write_text(json.dumps(document))


def spoiled(arrays: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """One array has another shape, type or value, or is not there."""
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    flat = array.reshape(-1)
    ways: list[Callable[[], np.ndarray | None]] = [
        lambda: None,
        lambda: np.concatenate([flat, flat]),
        lambda: flat[:0],
        lambda: array[None],
        lambda: array.astype(np.float16),
        lambda: array.astype(np.int64),
        lambda: np.full_like(array, np.nan) if array.dtype.kind == "f" else -array - 1,
        lambda: np.full_like(array, np.inf) if array.dtype.kind == "f" else array * 0,
    ]
    given = rng.choice(ways)()
    rest = {k: v for k, v in arrays.items() if k != name}
    return rest if given is None else rest | {name: given}


def sealed_arrays(path: Path, rng: random.Random) -> None:
    """state.safetensors with another array, which state.json has the sha256 of."""
    path.write_bytes(save(spoiled(load_file(path), rng)))
    reseal(path)


def reseal(path: Path) -> None:
    """state.json has the sha256 of what lies beside it."""
    data, state = path.read_bytes(), path.with_name("state.json")
    document = json.loads(state.read_text())
    document |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    document["seal"] = checkpoints.seal(document)
    state.write_text(json.dumps(document))


def parts(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with safe_open(str(path), framework="numpy") as file:
        return {k: file.get_tensor(k) for k in file.keys()}, dict(file.metadata())  # noqa: SIM118


def signed_policy(path: Path, rng: random.Random) -> None:
    """A policy whose description or arrays are others, with the right sha256."""
    tensors, metadata = parts(path)
    about = json.loads(json.loads(metadata["penfac"])["policy"])
    if rng.random() < 0.7:
        about = forged(about, rng)
    else:
        tensors = spoiled(tensors, rng)
    text = json.dumps(about)
    signed = json.dumps({"sha256": _digest(tensors, text), "policy": text})
    path.write_bytes(save(tensors, {"penfac": signed}))


def huge_policy(path: Path, rng: random.Random) -> None:
    tensors, metadata = parts(path)
    about = json.loads(json.loads(metadata["penfac"])["policy"])
    about["action_shape"] = rng.choice([[10**15], [-1, -1], [0], [1] * 10_000])
    text = json.dumps(about)
    signed = json.dumps({"sha256": _digest(tensors, text), "policy": text})
    path.write_bytes(save(tensors, {"penfac": signed}))


def sealed_bundle(path: Path, rng: random.Random) -> None:
    tensors, metadata = parts(path)
    document = json.loads(metadata["penfac"])
    if rng.random() < 0.7:
        document = forged(document, rng)
    else:
        tensors = spoiled(tensors, rng)
    text = json.dumps(document)
    path.write_bytes(
        save(tensors, {"penfac": text, "seal": bundle.seal(text, tensors)})
    )


# --- CSV -----------------------------------------------------------------------------------


def edit_csv(path: Path, rng: random.Random, what: str) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    k, j = rng.randrange(1, len(rows)), rng.randrange(len(rows[0]))
    if what == "digit":
        digits = [i for i, c in enumerate(rows[k][j]) if c.isdigit()]
        word = list(rows[k][j])
        if digits:
            at = rng.choice(digits)
            word[at] = str((int(word[at]) + 5) % 10)
        rows[k][j] = "".join(word) if digits else "7"
    elif what == "word":
        rows[k][j] = rng.choice(
            ["nan", "inf", "-1", "1e400", "junk", "\x1b[31m", "9" * 400]
        )
    elif what == "row gone":
        del rows[k]
    elif what == "row twice":
        rows.insert(k, rows[k])
    elif what == "column":
        rows[0][j] = rng.choice(["junk", "", rows[0][j - 1]])
    elif what == "long":
        rows[k][j] = "1" * 1_000_000
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue())


def csv_change(what: str) -> Change:
    change = partial(edit_csv, what=what)
    change.__name__ = what  # type: ignore[attr-defined]
    return change


CSV = [
    csv_change(w) for w in ("digit", "word", "row gone", "row twice", "column", "long")
]


def of(path: Path) -> list[Change]:
    """The forgeries that fit a file; those of values are many, and drawn each time."""
    if path.name == "state.json":
        return [forge_json, deep_json, other_json, *[sealed_state] * 6]
    if path.suffix == ".json":
        return [*[forge_json] * 12, deep_json, other_json, deep_key]
    if path.name == "state.safetensors":
        return [sealed_arrays] * 6
    if path.name == "policy.safetensors":
        return [*[signed_policy] * 6, huge_policy]
    if path.suffix == ".safetensors" and path.parent.name != "replay":
        return [sealed_bundle] * 10
    return CSV if path.suffix == ".csv" else []
