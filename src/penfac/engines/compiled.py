"""The compiled programs of a device engine, spread over the devices of a mesh."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from penfac.engines.programs import Inputs, Learners, Programs
from penfac.machine import usable_cores

AXIS = "learners"


class Compiled(NamedTuple):
    """Jitted functions: each compiles at its first call."""

    begin: Any
    advance: Any  # donates the learners
    evaluate: Any  # the number of episodes and the mode are static


def compile_programs(programs: Programs, mesh: Mesh) -> Compiled:
    sharding = learner_sharding(mesh)
    # Fix the output sharding, so that the next call does not compile again
    jit = functools.partial(
        jax.jit,
        out_shardings=sharding,
        compiler_options=compiler_options(mesh.devices.flat[0].platform),
    )

    def evaluate(state, inputs, evaluation, drawn, sigma, active, episodes, mode):
        def play(state, inputs, evaluation, drawn, sigma, active):
            args = (evaluation, drawn, sigma, active, episodes, mode)
            return programs.evaluate(state, inputs, *args)

        play = spread(play, mesh)
        return play(state, inputs, evaluation, drawn, sigma, active)

    return Compiled(
        jit(spread(programs.begin, mesh)),
        jit(spread(programs.advance, mesh), donate_argnums=0),
        jit(evaluate, static_argnums=(6, 7)),
    )


def learner_sharding(mesh: Mesh) -> NamedSharding:
    """The leading axis of every array is divided among the devices."""
    return NamedSharding(mesh, PartitionSpec(AXIS))


def spread(program: Callable, mesh: Mesh) -> Callable:
    """The program with each device at its own learners; no device waits for another."""
    if mesh.size == 1:
        return program
    part = PartitionSpec(AXIS)
    return jax.shard_map(
        program, mesh=mesh, in_specs=part, out_specs=part, check_vma=False
    )


def compiler_options(platform: str) -> dict[str, int] | None:
    """On a GPU compile on every core. By default XLA took twice as long on a machine of 16
    cores, perhaps because of PJRT_NPROC, which MJX needs to be 1 on a CPU."""
    if platform != "gpu":
        return None
    return {"xla_gpu_force_compilation_parallelism": len(usable_cores())}


def abstract_learners(compiled: Compiled, inputs: Inputs, mesh: Mesh) -> Learners:
    """Shapes and shardings of the learners, exactly as a program gets them: it is then
    traced once."""
    sharding = learner_sharding(mesh)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        jax.eval_shape(compiled.begin, inputs),
    )
