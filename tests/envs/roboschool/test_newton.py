"""The constraint solver of the MJX engine, each part against its definition."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

pytest.importorskip("mujoco.mjx")
from mujoco import mjx
from tests.envs.roboschool.test_roboschool_mjx import states_met

from penfac.envs.roboschool.cpu import CpuEngine
from penfac.envs.roboschool.mjx import MjxEngine
from penfac.envs.roboschool.newton import (
    Cones,
    OneWay,
    between_breaks,
    between_points,
    constraints,
    line_minimum,
    solve,
    solve_positive,
)
from penfac.envs.roboschool.registration import THRESHOLDS
from penfac.envs.roboschool.task import make_task

pytestmark = pytest.mark.slow

V = 5  # degrees of freedom


def one_way(rng) -> OneWay:
    J, aim = rng.normal(size=(7, V)), rng.normal(size=7)
    return OneWay(*map(jnp.float32, (J, aim, rng.uniform(0.5, 3, 7))))


def cones(rng) -> Cones:
    shape = 6, 3
    J, aim = rng.normal(size=(*shape, V)), rng.normal(size=shape)
    D, friction = rng.uniform(0.5, 3, shape), rng.uniform(0.3, 1.2, shape)
    return Cones(*map(jnp.float32, (J, aim, D, friction)))


@pytest.mark.parametrize("make", [one_way, cones])
def test_derivatives_are_those_of_the_cost(make):
    """At 50 random accelerations, so that every zone of a cone is met."""
    rng, met = np.random.default_rng(0), []
    for _ in range(50):
        c, x, line = make(rng), *jnp.float32(rng.normal(size=(2, V)))
        r = c.residual(x)

        def cost(x, c=c):
            return c.cost(c.residual(x))

        near = {"rtol": 2e-4, "atol": 2e-4}
        np.testing.assert_allclose(c.gradient(r), jax.grad(cost)(x), **near)
        np.testing.assert_allclose(c.hessian(r), jax.hessian(cost)(x), **near)
        ts = jnp.float32(rng.uniform(0, 2, 4))
        slope = jax.grad(
            lambda t, c=c, x=x, line=line: c.cost(c.residual(x + t * line))
        )
        told = c.slopes(r, c.J @ line)(ts)
        np.testing.assert_allclose(told, jax.vmap(slope)(ts), rtol=2e-3, atol=2e-3)
        if isinstance(c, Cones):
            now = c.sliding(r)
            met.append((now.sticks.sum(), now.slides.sum()))
    if met:
        sticks, slides = np.sum(met, axis=0)
        assert min(sticks, slides, 300 - sticks - slides) > 20


def lines(count: int):
    """slope, bend, D, r, v of costs that fall at 0, in double precision."""
    rng = np.random.default_rng(1)
    for k in range(count):
        n = 1 + k % 9
        r, v = rng.normal(size=(2, n)) * 10 ** rng.uniform(-1, 1)
        D, bend = 10 ** rng.uniform(-1, 3, n), 10 ** rng.uniform(-2, 1)
        start = np.sum(D * v * np.minimum(r, 0))
        yield -start - rng.uniform(0.01, 5), bend, D, r, v


def test_the_minimum_of_a_line_is_found_exactly_and_between_points():
    for slope, bend, D, r, v in lines(200):

        def cost(t, given=(slope, bend, D, r, v)):
            slope, bend, D, r, v = given
            return slope * t + bend * t * t / 2 + D @ np.minimum(r + t * v, 0) ** 2 / 2

        fall = -(slope + np.sum(D * v * np.minimum(r, 0)))
        far = fall / bend  # no further: everything but bend only pushes back
        best = minimize_scalar(cost, bounds=(0, far), options={"xatol": 1e-10 * far})
        given = [jnp.float32(x) for x in (slope, bend, D, r, v)]
        rows = OneWay(jnp.zeros((len(r), 1)), jnp.zeros(len(r)), given[2])
        nothing = OneWay(jnp.zeros((0, 1)), *[jnp.zeros(0)] * 2), *[jnp.zeros(0)] * 2
        moving = [(rows, *given[3:])]
        found = {
            "exactly": float(line_minimum(*given[:2], moving)),
            "between points": float(line_minimum(*given[:2], [*moving, nothing])),
        }
        scale = cost(0.0) - cost(best.x)
        for (how, t), lost in zip(found.items(), (1e-4, 0.02), strict=True):
            assert cost(t) - cost(best.x) < lost * scale, (how, t, best.x)


def test_a_line_that_leads_nowhere_is_not_followed():
    none = jnp.zeros(3)
    t = between_breaks(jnp.float32(0), jnp.float32(0), jnp.ones(3), none - 1, none)
    assert np.isfinite(t)
    assert float(between_points(lambda t: 0 * t, jnp.float32(0))) == 0
    # uphill from the start: stay
    up = between_breaks(jnp.float32(2), jnp.float32(1), none + 1, none + 1, none)
    assert float(up) == 0


def test_a_positive_system_is_solved():
    rng = np.random.default_rng(2)
    for n in (1, 2, 9, 23):
        Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
        A = Q @ np.diag(10 ** rng.uniform(-2, 2, n)) @ Q.T
        x = rng.normal(size=n)
        found = solve_positive(jnp.float32(A), jnp.float32(A @ x))
        np.testing.assert_allclose(found, x, rtol=0.02, atol=0.02)
        np.testing.assert_allclose(A @ found, A @ x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_robots_have_no_other_constraints_than_the_solver_knows(name):
    task = make_task(name)
    data = MjxEngine.of(task).at_rest._impl
    assert (data.ne, data.nf) == (0, 0)
    assert set(np.asarray(data.contact.dim)) <= {3}
    rows = {"elliptic": 3, "pyramidal": 4}[task.machine.robot.cone]
    assert len(data.efc_J) == data.nl + rows * len(data.contact.dim)


@pytest.mark.parametrize("name", [n for n in THRESHOLDS if "Pendulum" not in n])
def test_no_robot_has_more_contacts_than_are_solved_for(name):
    """Standing, thrown about and lying, in C, which drops none."""
    machine = make_task(name).machine
    model, rng, met = machine.model, np.random.default_rng(3), []
    room = len(MjxEngine.of(make_task(name)).at_rest._impl.contact.dim)
    assert room <= machine.physics.contacts
    for strength in (0, 0.5, 1):
        data = mujoco.MjData(model)
        for _ in range(500):
            data.ctrl[:] = strength * rng.uniform(-1, 1, model.nu)
            mujoco.mj_step(model, data, 4)
            met.append(data.ncon)
    assert 0 < max(met) <= room


@pytest.mark.parametrize("name", ["Hopper", "Humanoid"])
def test_no_solution_costs_more_than_mjx_s_own(name):
    """From 200 states that random actions lead to, MJX given all the rounds it wants."""
    task = make_task(name)
    physics, nq = MjxEngine.of(task), task.machine.model.nq
    many = physics.model.opt.replace(iterations=50, ls_iterations=50)
    patient = physics.model.replace(opt=many)
    worlds, action = states_met(CpuEngine(task), 200)
    state = jnp.float32(worlds.physics[:, 1:])

    @jax.jit
    @jax.vmap
    def both(qpos, qvel, action):
        data = physics.at_rest.replace(qpos=qpos, qvel=qvel, ctrl=action)
        ready = mjx.forward(physics.model, data)  # its constraints are what we want
        every, M = constraints(physics.model, ready), mjx.full_m(physics.model, ready)

        def cost(x):
            away = x - ready.qacc_smooth
            return away @ M @ away / 2 + sum(c.cost(c.residual(x)) for c in every)

        ours = solve(physics.model, ready, physics.rounds)
        theirs = mjx.solve(patient, ready)
        return cost(ours.qacc), cost(theirs.qacc), cost(ready.qacc_smooth)

    ours, theirs, without = map(np.asarray, both(state[:, :nq], state[:, nq:], action))
    assert np.mean(without > 2 * theirs + 1) > 0.3  # there was something to solve
    dearer = ours > theirs * 1.001 + 1e-3
    assert dearer.mean() <= 0.005, list(zip(ours[dearer], theirs[dearer], strict=True))
