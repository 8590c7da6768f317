"""Every test of this folder runs in a folder of its own."""

import tempfile

import pytest


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Runs go where the test runs, and so does what a run folder refuses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
