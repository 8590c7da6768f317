"""Constructors show their settings: to people, to programs, to editors."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from docs import tables
from tests.small_models import own_folder, small

import penfac
from penfac.api import KINDS
from penfac.errors import ConfigError
from penfac.settings.configs import to_values
from penfac.settings.declaration import known_fields
from penfac.settings.registry import SETTINGS

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("algo", SETTINGS)
def test_a_signature_has_every_setting_with_its_default(algo):
    parameters = inspect.signature(KINDS[algo]).parameters
    assert list(parameters)[:4] == ["env", "preset", "seed", "out"]
    found = {
        name: parameters[name].default for name in known_fields(SETTINGS[algo].config)
    }
    model = KINDS[algo]("Pendulum-v1")
    assert found == vars(model._config.settings)
    assert to_values(model._config.settings)


def test_the_stub_is_the_one_that_declarations_make():
    """`make tables` writes it."""
    assert tables.STUB.read_text(encoding="utf-8") == tables.stub()


def test_the_name_of_a_policy_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"as in penfac\.PPO\(env\); the policy is a"):
        penfac.PPO("MlpPolicy", "Pendulum-v1")
    with pytest.raises(
        ConfigError, match="policy: no such setting; give the environment"
    ):
        penfac.PPO(policy="MlpPolicy", env="Pendulum-v1")
    with pytest.raises(ConfigError, match=r"learning_rate: .* here it is actor_lr and"):
        small(learning_rate=1e-3)


@pytest.mark.slow
def test_pyright_sees_settings_and_their_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import penfac\n"
        'penfac.PPO("Pendulum-v1", clip=0.1, actor_hidden=[64], init="uniform")\n'
        'penfac.PPO("Pendulum-v1", clip="much")\n'
        'penfac.PPO("Pendulum-v1", learning_rate=1.0)\n'
        'penfac.TD3("Pendulum-v1", exploration="white")\n'
        'print(penfac.load("run").learn(10).evaluate(5)["mean"])\n'
        "reveal_type(penfac.PPO.load('run'))\n"
    )
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"})
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable,
         "-p", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [d["range"]["start"]["line"] + 1 for d in told if d["severity"] == "error"]
    assert sorted(set(errors)) == [3, 4, 5], told
    assert any('"PPO"' in d["message"] for d in told if d["severity"] == "information")
