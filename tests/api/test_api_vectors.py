"""Vector environments from Python and by the command."""

import gymnasium
import numpy as np
import pytest
from tests.envs.counting import LIMIT, Counting
from tests.faults.commands import command
from tests.full_batch import options
from tests.small_models import JUDGED, SMALL, Rail, learned, own_folder, small

import penfac
from penfac.errors import ConfigError

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
RUNNING = {"collect": "steps", "worlds": 4, "steps_per_world": 16}


def pendulums(mode: str = "NextStep") -> gymnasium.vector.VectorEnv:
    how = {"vector_kwargs": {"autoreset_mode": mode}, "max_episode_steps": 25}
    return gymnasium.make_vec("Pendulum-v1", 4, "sync", **how)


def counted(num_envs: int) -> Counting:
    return Counting(num_envs, "SameStep")


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_object_learns_what_single_environments_learn(mode):
    """Evaluations, a second call and all."""
    alone = learned(steps=100, **RUNNING)
    many = learned(pendulums(mode=mode), steps=100, **RUNNING)
    ends = alone.learn(50), many.learn(50)
    for name in ("progress.csv", "evaluations.csv"):
        one, other = ((m.run / name).read_bytes() for m in ends if m.run)
        assert one == other
    for one, other in zip(*(m.policy.weights.layers for m in ends), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    assert alone.evaluate(5)["returns"] == many.evaluate(5)["returns"]
    assert many.observation_space == gymnasium.make("Pendulum-v1").observation_space
    assert many.get_env().num_envs == 4
    assert "penfac-own/SyncVectorEnv" in repr(many)


def test_a_function_makes_as_many_as_are_needed():
    made = []

    def rails(num_envs: int, force: float = 0.1):
        made.append((num_envs, force))
        limited = lambda: gymnasium.wrappers.TimeLimit(Rail(force), 25)  # noqa: E731
        return gymnasium.vector.SyncVectorEnv([limited] * num_envs)

    model = small(rails, env_kwargs={"force": 0.5}, **RUNNING)
    model.learn(64, eval_every=50, eval_episodes=3)
    assert {n for n, _ in made} == {1, 4, 3}  # checks, learning, evaluation
    assert {force for _, force in made} == {0.5}
    model.save("kept")
    assert penfac.load("kept").evaluate(3)["returns"] == model.evaluate(3)["returns"]


def test_one_that_cannot_repeat_episodes_says_so_and_goes_on():
    """... twice: at the start, and when a run continues."""
    settings = RUNNING | {"max_episode_steps": LIMIT}
    with pytest.warns(
        UserWarning, match="cannot repeat episodes; a resumed run begins"
    ):
        model = learned(counted, **settings)
    steps = model.num_timesteps
    with pytest.warns(UserWarning, match="new episodes begin"):
        model.learn(50)
    assert model.num_timesteps >= steps + 50


def test_wrong_use_is_one_line():
    def says(env, words, **more):
        with pytest.raises(ConfigError) as refusal:
            small(env, **(RUNNING | more)).learn(50, **JUDGED)
        assert words in str(refusal.value)

    says(pendulums(), "num_envs = 4: must be the number of worlds, 8", worlds=8)
    says(pendulums(), "env_kwargs: has no effect", env_kwargs={"g": 1})

    class Program(Counting):
        def __deepcopy__(self, memory):
            raise TypeError("it is a program")

    says(Program(4), "cannot be copied (it is a program); pass a function that makes")
    model = learned(pendulums(), **RUNNING)
    with pytest.raises(ConfigError, match="is a vector environment, and this needs"):
        model.compare(Still(), 2)


class Still:
    """A controller of somebody else."""

    def predict(self, obs):
        return np.zeros(1, np.float32)


def test_by_the_command(own_folder, tmp_path):
    """An id of a module with a vectorised version only."""
    (tmp_path / "pools.py").write_text(
        "import gymnasium\n"
        "def pool(num_envs, max_episode_steps):\n"
        "    return gymnasium.make_vec('Pendulum-v1', num_envs, 'sync',"
        " max_episode_steps=max_episode_steps)\n"
        "gymnasium.register('Pool-v0', vector_entry_point=pool, max_episode_steps=25)\n"
    )
    shared = "--eval-every=50", "--eval-episodes=1", *options(SMALL | RUNNING)
    train = "train", "--env=pools:Pool-v0", "--steps=128", "--name=a", *shared
    assert command(*train, "--seeds=2").code == 0
    assert command("resume", "runs/penfac/a", "--trust", "--steps=192").code == 0
    assert command("eval", "runs/penfac/a", "--trust", "--episodes=2").code == 0
    refused = command(*train, "--env-restarts=1")
    assert refused.code == 2
    assert "is a vector environment, which breaks as a whole" in refused.err
    played = command("play", "runs/penfac/a", "--trust", "--seed=0", "--strip=a.png")
    assert played.code == 2
    assert "cannot draw" in played.err
