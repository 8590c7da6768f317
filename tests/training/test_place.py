"""A run names its device, and says what of it was seldom meant."""

from pathlib import Path

import jax
import pytest
from tests.faults.commands import TINY, command
from tests.small_models import JUDGED, own_folder, small

from penfac import machine
from penfac.training import place
from penfac.training.request import Request, resolve

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
on_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="says what a machine without a GPU says"
)


@on_cpu
def test_the_first_line_and_the_log_name_the_device():
    done = command("train", "--env=penfac/LQR-v0", *TINY, "--name=run")
    first = done.out.splitlines()[0]
    assert f"engine=device device='{machine.device_name()}'" in first
    assert machine.device_name().startswith("CPU (")
    log = Path("runs/penfac/run/log.txt").read_text()
    assert "environments and learning on CPU (" in log
    assert "# --on device" not in done.out  # nobody asked for it


@on_cpu
def test_a_device_that_was_asked_for_and_is_not_there_is_told():
    done = command("train", "--env=penfac/LQR-v0", *TINY, "--on=device")
    assert done.code == 0
    told = [line for line in done.out.splitlines() if line.startswith("# --on device")]
    assert len(told) == 1
    assert "JAX has no GPU here, so the program runs on the CPU" in told[0]


def test_a_gpu_that_jax_does_not_use_is_told(monkeypatch, tmp_path):
    """Devices are files; where somebody chose the CPU, nothing is said."""
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(machine, "runs_on_accelerator", lambda: False)
    assert not machine.has_unused_gpu(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert machine.has_unused_gpu(tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert not machine.has_unused_gpu(tmp_path)
    monkeypatch.setattr(machine, "has_unused_gpu", lambda: True)
    with pytest.warns(UserWarning, match=r'pip install "penfac\[cuda\]"'):
        small().learn(50, **JUDGED)
    done = command("train", "--env=penfac/LQR-v0", *TINY)
    assert "# there is a GPU that JAX does not use" in done.out


def test_a_task_that_could_run_on_the_gpu_is_told(monkeypatch):
    monkeypatch.setattr(machine, "runs_on_accelerator", lambda: True)
    hopper = resolve(Request(env="RoboschoolHopper-v2"))
    (note,) = place.place_notes(hopper, "auto")
    assert note.startswith("RoboschoolHopper-v2 could run on the GPU too")
    assert not place.place_notes(resolve(Request(env="Pendulum-v1")), "auto")
    assert not place.place_notes(resolve(Request(env="penfac/LQR-v0")), "device")
