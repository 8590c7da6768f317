"""A policy as a C header: it compiles without a word, and acts as the policy."""

import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.export.some_policies import POLICIES, at_edges, make
from tests.export.test_onnx import moved

from penfac.errors import ConfigError, CorruptFile
from penfac.export import compiled
from penfac.export.c import c_header, c_name, number
from penfac.export.compiled import acting, check_c, library
from penfac.policy import Policy

STRICT = {
    "gcc": ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"],
    "g++": ["-std=c++17", "-Wall", "-Wextra", "-Werror"],
}
needs_compiler = pytest.mark.skipif(
    compiled.compiler() is None, reason="no C compiler here"
)
MAIN = """#include "robot.h"
#include <stdio.h>
int main(void) {{
    float obs[ROBOT_INPUTS] = {{0}};
    {kind} action[ROBOT_OUTPUTS];
    robot_act(obs, action);
    printf("%.9g\\n", (double)action[0]);
    return 0;
}}
"""


def built(folder, policy: Policy, with_: str, *more: str) -> str:
    """What a program around the header prints."""
    if shutil.which(with_) is None:
        pytest.skip(f"no {with_} here")
    kind = "double" if policy.actions.low.dtype == np.float64 else "float"
    (folder / "robot.h").write_text(c_header(policy, "robot"))
    source = folder / ("main.c" if with_ == "gcc" else "main.cc")
    source.write_text(MAIN.format(kind=kind))
    argv = [with_, *STRICT[with_], *more, source.name, "-o", "main", "-lm"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return subprocess.run([folder / "main"], capture_output=True, text=True).stdout


@needs_compiler
@pytest.mark.parametrize("kind", POLICIES)
def test_the_header_is_the_policy(kind):
    policy = POLICIES[kind]
    found = check_c(c_header(policy, "robot"), "robot", policy)
    assert found is not None
    assert found.worst <= 1e-5
    assert found.settled >= 0.8 * found.states == 8000


@pytest.mark.parametrize("with_", STRICT)
@pytest.mark.parametrize("kind", ["as learned", "float64", "tiles", "tiles that share"])
def test_strict_compilers_have_nothing_to_say(tmp_path, kind, with_):
    policy = POLICIES[kind]
    printed = built(tmp_path, policy, with_)
    due = policy(np.zeros(len(policy.weights.mean))).reshape(-1)[0]
    assert float(printed) == pytest.approx(float(due), abs=1e-5)


@needs_compiler
@pytest.mark.parametrize("kind", [k for k, p in POLICIES.items() if p.weights.tiling])
def test_tiles_are_found_to_the_bit(kind):
    policy = POLICIES[kind]
    obs = at_edges(policy.weights.tiling)
    with library(c_header(policy, "robot"), "robot", policy) as made:
        found = acting(made, policy)(obs)
    np.testing.assert_allclose(found, policy(obs), rtol=0, atol=2e-6)


@needs_compiler
@pytest.mark.parametrize("kind", ["as learned", "relu", "tiles that share"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_gives_nan(kind, value):
    policy = POLICIES[kind]
    obs = np.zeros((2, len(policy.weights.mean)), np.float32)
    obs[1, 0] = value
    with library(c_header(policy, "robot"), "robot", policy) as made:
        found = acting(made, policy)(obs)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


@needs_compiler
def test_it_keeps_nothing_and_asks_for_nothing(tmp_path):
    """No symbol of the object is written to, none but math's is asked for."""
    if shutil.which("nm") is None:
        pytest.skip("no nm here")
    (tmp_path / "robot.h").write_text(c_header(make(), "robot"))
    text = '#include "robot.h"\nvoid f(const float *o, float *a) { robot_act(o, a); }\n'
    (tmp_path / "f.c").write_text(text)
    argv = [str(compiled.compiler()), "-O2", "-c", "f.c"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["nm", "f.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    symbols = [line.split()[-2:] for line in listed.splitlines()]
    assert not [name for kind, name in symbols if kind in "BbDdC"]
    asked = {name for kind, name in symbols if kind == "U"}
    assert asked <= {"tanhf", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert ["T", "f"] in symbols


@needs_compiler
def test_two_policies_in_one_program(tmp_path):
    for name in ("left", "right"):
        (tmp_path / f"{name}.h").write_text(c_header(make(), name))
    text = (
        '#include "left.h"\n#include "right.h"\n#include "left.h"\n'
        "void f(const float *o, float *a) { left_act(o, a); right_act(o, a); }\n"
    )
    (tmp_path / "f.c").write_text(text)
    argv = [str(compiled.compiler()), "-std=c99", "-Wall", "-Werror", "-c", "f.c"]
    subprocess.run(argv, cwd=tmp_path, check=True)


def test_no_environment_leaves_the_comment(tmp_path):
    policy = make()
    for name in ("*/ int x; /*", "a\nb", "Ümlaut-v0", "what??/", "end\\"):
        said = Policy(policy.weights, policy.actions, {"environment": name})
        built(tmp_path, said, "gcc")


@needs_compiler
def test_fast_math_is_refused(tmp_path):
    (tmp_path / "robot.h").write_text(c_header(make(), "robot"))
    (tmp_path / "f.c").write_text('#include "robot.h"\n')
    argv = [str(compiled.compiler()), "-ffast-math", "-c", "f.c"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "without -ffast-math" in done.stderr


@needs_compiler
@pytest.mark.parametrize("kind", ["as learned", "tiles"])
def test_another_policy_is_noticed(kind):
    policy = POLICIES[kind]
    header = c_header(moved(policy, 1e-3), "robot")
    with pytest.raises(CorruptFile, match=r"of the range at state \["):
        check_c(header, "robot", policy)


@needs_compiler
def test_a_header_that_does_not_compile_is_noticed():
    header = c_header(make(), "robot").replace("int i, j;", "int i;")
    with pytest.raises(CorruptFile, match="does not compile"):
        check_c(header, "robot", make())


def test_without_a_compiler_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    assert check_c(c_header(make(), "robot"), "robot", make()) is None


@pytest.mark.parametrize("name", ["", "3d", "a-b", "a b", "_x", "é", "a;", "a\n"])
def test_a_name_is_a_c_name(name):
    with pytest.raises(ConfigError, match="--name"):
        c_header(make(), name)


def test_names_from_environments():
    assert c_name("RoboschoolHopper-v2") == "roboschoolhopper_v2"
    assert c_name("penfac/LQR-v0") == "lqr_v0"
    assert c_name("my.module:Robot-v3") == "robot_v3"
    assert c_name("3D-v0") == "policy_3d_v0"
    assert c_name("") == "policy"


def test_an_action_of_half_precision_is_refused():
    with pytest.raises(ConfigError, match="float16"):
        c_header(make(dtype=np.float16), "robot")


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_come_back_to_the_bit(x):
    text = number(np.float32(x))
    assert text.endswith("f")
    assert set(text) & {".", "e"}
    assert np.float32(text[:-1]).tobytes() == np.float32(x).tobytes()
    assert np.float64(number(np.float64(x / 3))) == x / 3
