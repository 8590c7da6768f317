"""Documents of ours with a value that nobody would write, at every place."""

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

DEEP: list = []
for _ in range(500):
    DEEP = [DEEP]
VALUES = [
    None, True, 0, 1, -1, 1.5, 10**30, -(10**30), 1e308, math.inf, math.nan,
    "1e400", "x", "", "y" * 3000, "a\nb\x1b[2J", "\0", "../../x", [], {}, ["x"],
    [None], [{}], {"x": 1}, {"x": {}}, DEEP,
]  # fmt: skip


def places(document: Any, path: tuple = ()) -> Iterator[tuple]:
    """Every key, and the first two of every list."""
    if isinstance(document, dict):
        below = list(document.items())
    else:
        below = list(enumerate(document[:2])) if isinstance(document, list) else []
    for key, value in below:
        yield (*path, key)
        yield from places(value, (*path, key))


def forgeries(document: Any) -> Iterator[tuple[str, Any]]:
    """What was forged, and the document with it."""
    document = json.loads(json.dumps(document))
    for path in list(places(document)):
        for value in VALUES:
            forged = copy.deepcopy(document)
            home_of(forged, path)[path[-1]] = value
            yield f"{path} = {str(value)[:40]}", forged
        forged = copy.deepcopy(document)
        del home_of(forged, path)[path[-1]]
        yield f"{path} removed", forged


def home_of(document: Any, path: tuple) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document
