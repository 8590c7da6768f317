"""How much memory a program needs, told before it is compiled."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from penfac.errors import OutOfMemory

if TYPE_CHECKING:
    from penfac.engines.device import DeviceEngine


def size_of(aval: Any) -> int:
    """Bytes of one array."""
    return int(aval.size) * aval.dtype.itemsize if hasattr(aval, "size") else 0


def inner(eqn: Any) -> list[Jaxpr]:
    """The programs inside an instruction: the body of a loop, the branches of a choice."""
    found = []
    for parameter in eqn.params.values():
        for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
            if isinstance(item, ClosedJaxpr):
                found.append(item.jaxpr)
            elif isinstance(item, Jaxpr):
                found.append(item)
    return found


def peak(jaxpr: Jaxpr) -> int:
    """The most bytes that are alive at once, if each instruction kept its result in
    memory until the last one that needs it."""
    last: dict[Var, int] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        last |= {v: k for v in eqn.invars if not isinstance(v, Literal)}
    last |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}
    alive = {v: size_of(v.aval) for v in (*jaxpr.invars, *jaxpr.constvars)}
    most = now = sum(alive.values())
    for k, eqn in enumerate(jaxpr.eqns):
        made = {v: size_of(v.aval) for v in eqn.outvars if v in last}
        # what enters a body is alive already, here
        extra = max(
            (
                peak(body) - sum(size_of(v.aval) for v in body.invars)
                for body in inner(eqn)
            ),
            default=0,
        )
        alive |= made
        now += sum(made.values())
        most = max(most, now + max(extra, 0))
        for v in {v for v in eqn.invars if not isinstance(v, Literal)} | made.keys():
            if last.get(v, -1) <= k and v in alive:
                now -= alive.pop(v)
    return most


def body(jaxpr: Jaxpr) -> Jaxpr:
    """What one device runs, where a program is spread over several."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "shard_map":
            return inner(eqn)[0]
        if len(jaxpr.eqns) == 1 and inner(eqn):  # a call around everything
            return body(inner(eqn)[0])
    return jaxpr


# XLA needed 0.5 to 1.2 times the peak on the programs of our tests, and 1.9 times once:
# fused instructions keep nothing, but some layouts are copied
MARGIN = 2.0


class Rows(NamedTuple):
    """Learners on one device, and the bytes of each."""

    at_once: int
    all: int
    working: float
    waiting: float


def rows(engine: "DeviceEngine") -> Rows:
    group, devices = engine.groups[0], engine.mesh.size
    learners = engine.shapes()
    when = engine.when(group, {})
    traced = engine.advance_program.trace(learners, group.who, when)
    at_once = group.size // devices
    return Rows(
        at_once=at_once,
        all=sum(g.size for g in engine.groups) // devices,
        working=MARGIN * peak(body(traced.jaxpr.jaxpr)) / at_once,
        waiting=sum(map(size_of, jax.tree.leaves(learners))) / group.size,
    )


def needed(engine: "DeviceEngine") -> float:
    """Bytes on each device: one group at work, the others waiting."""
    r = rows(engine)
    return r.working * r.at_once + r.waiting * (r.all - r.at_once)


def kept(engine: "DeviceEngine") -> float:
    """Bytes on each device while another engine is at work."""
    r = rows(engine)
    return r.waiting * r.all


def available(device: Any) -> float:
    """Bytes that a device has for us."""
    told = device.memory_stats() if device.platform != "cpu" else None
    if told and "bytes_limit" in told:
        return told["bytes_limit"]
    return 0.9 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(engine: "DeviceEngine", beside: float = 0.0) -> None:
    """Refuse what does not fit, and say what would; `beside` it others wait."""
    need, have = needed(engine) + beside, available(engine.devices[0])
    learners = len(engine.groups[0].numbers)
    if learners > 1 and not beside:
        told = f"about {amount(need)} of {amount(have)}"
        engine.job.note(f"{learners} learners in one program: {told}")
    if need <= have:
        return
    r = rows(engine)
    room = have - beside - r.waiting * r.all
    fits = int(room / (r.working - r.waiting)) * engine.mesh.size
    way = f"--slice {fits} fits"
    if fits < 1:
        way = "fewer worlds, steps, or a smaller replay would"
    raise OutOfMemory(
        f"{learners} learners at once need about {amount(need)}, this device has "
        f"{amount(have)}; {way}"
    )


def check_all(engines: list["DeviceEngine"]) -> None:
    """The same of several engines that take turns."""
    every = sum(map(kept, engines))
    for engine in engines:
        check(engine, every - kept(engine))


def amount(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
