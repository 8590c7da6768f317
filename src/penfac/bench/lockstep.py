# pyright: reportMissingImports=false
"""`penfac bench lockstep`: are our gradient steps those of Stable-Baselines3?

Its DDPG or TD3 and ours start from the same weights and take the same rows and the same
noise. Rounding differs, and training multiplies any difference. So a second learner of
ours starts from weights moved by 1e-7: the programs differ only if theirs departs faster.

With `borrow` a model of theirs learns by our gradient steps, in a third of the time.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array
from stable_baselines3 import TD3

from penfac.algos.ddpg_learner import (
    Critics,
    Learner,
    Networks,
    Sampled,
    learn_from,
    optimiser,
)
from penfac.algos.nets import Layers
from penfac.bench.contest import HALFCHEETAH, Race, settings
from penfac.bench.figures import Figures, Say
from penfac.bench.ours import our_engine
from penfac.bench.peer import same_replayed

MOVED = 1e-7  # of the second learner, relative: the precision of float32
PRINTED = (1, 50, 500, 2000)


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures, table = Figures(say), []
    for algo in ("ddpg", "td3"):
        rows = lockstep(algo, HALFCHEETAH, 500 if quick else 2000)
        for step in PRINTED:
            if step <= len(rows):
                row = rows[step - 1]
                figures.add(
                    f"{algo}: distance of the actors after {step} gradient steps",
                    f"{row['theirs']:.1e} between the programs, {row['moved']:.1e} "
                    f"after a move by {MOVED:g}",
                )
        table += [{"algo": algo, **row} for row in rows]
    return {"figures": figures, "lockstep": table}


# --- their networks, as ours ----------------------------------------------------------


def linears(module: torch.nn.Module) -> list[torch.nn.Linear]:
    return [m for m in module.modules() if isinstance(m, torch.nn.Linear)]


def layers_of(module: torch.nn.Module) -> Layers:
    """The (W, b) pairs of a network of theirs."""
    array = lambda x: jnp.array(x.detach().numpy().copy())  # noqa: E731
    return [(array(x.weight.T), array(x.bias)) for x in linears(module)]


def critics_of(module: Any) -> Critics:
    each = [layers_of(q) for q in module.q_networks]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


def their_networks(model: TD3, like: Learner) -> tuple[Networks, Networks]:
    """The learned networks and the targets of their model."""
    pairs = (
        (like.online, model.actor, model.critic),
        (like.target, model.actor_target, model.critic_target),
    )
    online, target = (
        old._replace(
            actor=old.actor._replace(layers=layers_of(actor)),
            critics=critics_of(critic),
        )
        for old, actor, critic in pairs
    )
    return online, target


def give_layers(module: torch.nn.Module, layers: Layers) -> None:
    """Copy a network of ours into theirs."""
    with torch.no_grad():
        for (w, b), linear in zip(layers, linears(module), strict=True):
            linear.weight.copy_(torch.as_tensor(np.array(w)).T)
            linear.bias.copy_(torch.as_tensor(np.array(b)))


# --- our steps on their rows ----------------------------------------------------------


class Ours(NamedTuple):
    """A learner of ours at its start, and its gradient steps in one program."""

    learner: Learner
    steps: Any  # (learner, (rows, normal) of k steps) -> learner, what each reports


def our_steps(model: TD3, algo: str, race: Race) -> Ours:
    """Our learner with the weights of their model, its Adam new."""
    # their error is the mean square, ours half of it by default
    engine, _ = our_engine(algo, race, 0, race.steps[algo], critic_error=1.0)
    plan, numbers, state = engine.plan, engine.numbers, engine.learners[0].state
    engine.close()
    online, target = their_networks(model, state.learner)
    learner = Learner(
        online, target,
        actor_opt=optimiser(numbers.actor_lr, numbers).init(online.actor),
        critic_opt=optimiser(numbers.critic_lr, numbers).init(online.critics),
        steps=jnp.int32(0),
    )  # fmt: skip

    def step(learner: Learner, given: tuple[Sampled, Array]):
        return learn_from(learner, *given, state.observed, plan, numbers)

    return Ours(learner, jax.jit(partial(jax.lax.scan, step)))


def their_draws(
    model: TD3, count: int, size: int, other: np.random.Generator | None = None
) -> tuple[Sampled, np.ndarray]:
    """The rows and the noise of their next `count` gradient steps, as they draw them, or
    by another generator."""
    buffer: Any = model.replay_buffer
    rows: list[Any] = []
    normals = []
    for _ in range(count):
        if other is None:
            data = buffer.sample(size)
            normals.append(data.actions.clone().data.normal_(0, 1).numpy())
        else:
            data = buffer._get_samples(other.integers(0, buffer.size(), size))
            normals.append(other.normal(size=data.actions.shape).astype("f"))
        goes_on = 1 - data.dones.numpy()[:, 0]  # their buffer leaves time limits out
        rows.append((
            data.observations.float().numpy(), data.actions.numpy(),
            data.rewards.numpy()[:, 0], np.float32(model.gamma) * goes_on,
            data.next_observations.float().numpy(),
        ))  # fmt: skip
    columns: Any = map(np.stack, zip(*rows, strict=True))
    return Sampled(*columns), np.stack(normals)


def borrow(
    model: TD3, algo: str, race: Race, other: np.random.Generator | None = None
) -> TD3:
    """Let their model learn by our gradient steps; all the rest stays theirs, its draws
    too unless another generator makes them."""
    ours = our_steps(model, algo, race)
    learner = ours.learner

    def train(gradient_steps: int, batch_size: int = 100) -> None:
        nonlocal learner
        drawn = their_draws(model, gradient_steps, batch_size, other)
        learner, _ = ours.steps(learner, drawn)
        give_layers(model.actor, learner.online.actor.layers)
        model._n_updates += gradient_steps

    model.train = train  # type: ignore[method-assign]
    return model


# --- side by side ---------------------------------------------------------------------


def moved(tree: Any, rng: np.random.Generator) -> Any:
    """Every number a little larger or smaller."""
    return jax.tree.map(
        lambda x: x * (1 + MOVED * rng.choice([-1.0, 1.0], x.shape)).astype("f"), tree
    )


def distance(a: Any, b: Any) -> float:
    """|a - b| / |a| over all numbers of two trees."""
    x, y = (np.concatenate([np.ravel(v) for v in jax.tree.leaves(t)]) for t in (a, b))
    return float(np.linalg.norm(x - y) / np.linalg.norm(x))


def lockstep(algo: str, race: Race, steps: int) -> list[dict[str, Any]]:
    """Distances of the actors and critics after each gradient step: of theirs from ours,
    and of ours from ours that started nearby."""
    torch.set_num_threads(1)
    model: Any = same_replayed(algo, race, 0)
    shared = settings(algo, race)
    # random steps fill its replay; with one collection more it would learn
    model.learn(shared["learning_starts"] - shared["steps_per_world"])
    ours = our_steps(model, algo, race)
    online = ours.learner.online
    actor = online.actor._replace(
        layers=moved(online.actor.layers, np.random.default_rng(0))
    )
    critics = moved(online.critics, np.random.default_rng(1))
    learner = ours.learner
    control = learner._replace(online=online._replace(actor=actor, critics=critics))
    rows = []
    for step in range(1, steps + 1):
        draws = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        drawn = their_draws(model, 1, shared["batch_size"])
        np.random.set_state(draws[0])  # noqa: NPY002
        torch.set_rng_state(draws[1])
        model.train(1, shared["batch_size"])  # draws the same again
        learner, _ = ours.steps(learner, drawn)
        control, _ = ours.steps(control, drawn)
        theirs, _ = their_networks(model, learner)
        rows.append({
            "step": step,
            "theirs": distance(learner.online.actor.layers, theirs.actor.layers),
            "moved": distance(learner.online.actor.layers, control.online.actor.layers),
            "theirs_critics": distance(learner.online.critics, theirs.critics),
            "moved_critics": distance(learner.online.critics, control.online.critics),
        })  # fmt: skip
    return rows
