"""The environment of JAX, then all that commands import, once: each is a fork of this."""

# ruff: noqa: E402, F401
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",  # alarms of a slow machine are no lines of ours
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "jax"))

import gymnasium
import jax.stages
import matplotlib.backends.backend_agg
import matplotlib.figure
import tensorboardX.record_writer
from tests import compile_cache
from tests.campaign import own_env

import penfac.analysis.card
import penfac.analysis.compare
import penfac.analysis.play
import penfac.api
import penfac.cli
import penfac.cli.answers
import penfac.cli.study_answers
import penfac.export.onnx
import penfac.search.halving
import penfac.studies.findings
import penfac.studies.progress
import penfac.studies.publish
import penfac.studies.runner
import penfac.terminal
import penfac.training.unpack
