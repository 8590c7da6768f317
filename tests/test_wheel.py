"""The wheel holds all it needs, and runs where the source is not."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = [
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run([sys.executable, "-m", *words], check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_every_file_of_the_package_is_in_it(wheel):
    """Tables, the report's page and the marker of types too, and nothing else."""
    held = {
        name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name
    }
    source = ROOT / "src"
    due = {
        str(path.relative_to(source))
        for path in (source / "penfac").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert held == due
    assert "penfac/py.typed" in held


def test_it_trains_and_acts_where_the_source_is_not(wheel, tmp_path):
    site = tmp_path / "site"
    install = [
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", *install], check=True)
    program = (
        "import penfac, sys\n"
        f"assert penfac.__file__.startswith({str(site)!r}), penfac.__file__\n"
        "model = penfac.PeNFAC('penfac/LQR-v0').learn(300)\n"
        "action, _ = model.predict([0.1, 0.2])\n"
        "assert penfac.Policy.load(model.run)([0.1, 0.2]) == action\n"
        "print(penfac.__version__)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(site), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in wheel.name


def test_the_policy_alone_needs_two_packages(wheel, tmp_path):
    """`pip install --no-deps penfac` beside numpy and safetensors acts; all else is absent."""
    site = tmp_path / "site"
    words = ["install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        allowed = {'penfac', 'numpy', 'safetensors', *sys.stdlib_module_names}\n"
        "        if name.partition('.')[0] not in allowed and path is None:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import penfac\n"
        "from penfac import Policy\n"
        f"policy = Policy.load({str(ROOT / 'tests/faults/earlier/run')!r})\n"
        "import numpy\n"
        "n = len(policy.weights.mean)\n"
        "print(penfac.__file__, policy(numpy.zeros(n)).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site))
