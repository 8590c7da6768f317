"""Compiled programs are kept between tests and shared with the processes they start."""

import tempfile

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from tests.faults.commands import COMPILATIONS


@pytest.fixture(scope="package", autouse=True)
def keep_compilations():
    settings = {
        "jax_compilation_cache_dir": str(COMPILATIONS),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {key: getattr(jax.config, key) for key in settings}
    for key, value in settings.items():
        jax.config.update(key, value)
    yield
    for key, value in before.items():
        jax.config.update(key, value)
    compilation_cache.reset_cache()


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Runs go where the test runs, and so does what a run folder refuses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
