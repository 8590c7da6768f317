"""Compile one of our C headers and call it from Python, to check it and to time it."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from penfac.errors import CorruptFile
from penfac.export.check import Act, Agreement, compare
from penfac.policy import Policy

CALLER = """#include "policy.h"
void act(const float *obs, {kind} *action) {{ {name}_act(obs, action); }}
void act_all(const float *obs, {kind} *action, long count) {{
    long k;
    for (k = 0; k < count; k++)
        {name}_act(obs + k * {big}_INPUTS, action + k * {big}_OUTPUTS);
}}
"""


def compiler() -> str | None:
    """Return the C compiler of this machine, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def check_c(header: str, name: str, policy: Policy) -> Agreement | None:
    """Compile the header and compare it with the policy; None without a compiler, an
    error if it differs."""
    if compiler() is None:
        return None
    with library(header, name, policy) as compiled:
        return compare(acting(compiled, policy), policy, "--c")


@contextmanager
def library(header: str, name: str, policy: Policy) -> Iterator[Any]:
    """Compile the header as a shared library, which is deleted afterwards."""
    kind = "double" if policy.actions.low.dtype == np.float64 else "float"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "policy.h").write_text(header, encoding="ascii")
        source = CALLER.format(name=name, big=name.upper(), kind=kind)
        (home / "policy.c").write_text(source, encoding="ascii")
        argv = [
            str(compiler()), "-std=c99", "-O2", "-fPIC", "-shared",
            "-o", "policy.so", "policy.c", "-lm",
        ]  # fmt: skip
        done = subprocess.run(
            argv, cwd=home, capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            first = next(iter(done.stderr.strip().splitlines()), "no message")
            raise CorruptFile(f"--c: does not compile ({first}); nothing written")
        yield ctypes.CDLL(str(home / "policy.so"))


def acting(compiled: Any, policy: Policy) -> Act:
    """Return the compiled function, from [N, n] to [N, *shape]."""
    actions = policy.actions

    def act(obs: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(obs, np.float32)
        out = np.empty((len(rows), len(actions.low)), actions.low.dtype)
        pointer = ctypes.c_void_p
        compiled.act_all(
            pointer(rows.ctypes.data),
            pointer(out.ctypes.data),
            ctypes.c_long(len(rows)),
        )
        return out.reshape(len(rows), *actions.shape)

    return act
