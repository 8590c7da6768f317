"""`penfac play`: learned policies to look at, side by side: in a window, as a video or as
a strip of pictures."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from penfac.analysis.evaluate import load_policy
from penfac.envs.calls import Call, Watch
from penfac.envs.opengl import choose_opengl
from penfac.errors import ConfigError, EnvironmentFault
from penfac.policy import Policy
from penfac.randomness import Stream, env_seed
from penfac.runs.config import RunConfig
from penfac.runs.folder import RunFolder
from penfac.runs.run import Run
from penfac.runs.storage import make_folder, storage
from penfac.training.environment import find_env

VIDEOS = (".mp4", ".webm", ".gif")
GIF_FRAMES = 25  # a second: more than browsers like to show


class Wish(NamedTuple):
    """What to play and where to leave it."""

    video: Path | None = None
    strip: Path | None = None
    seed: int | None = None  # of the run; none: its first
    best: bool = False  # the policy of the best evaluation, not the last one
    episode: int = 0
    steps: int = 1000
    pictures: int = 8
    size: tuple[int, int] = (480, 360)
    trust: bool = False  # import the module that the run names


class Played(NamedTuple):
    run: Path
    seed: int
    frames: list[np.ndarray]
    per_second: float
    returned: float
    ended: str  # terminated, time limit, or cut

    def to_document(self) -> dict[str, Any]:
        return {
            "run": str(self.run),
            "seed": self.seed,
            "return": self.returned,
            "length": len(self.frames) - 1,
            "ended": self.ended,
        }


def play(runs: list[Path], wish: Wish) -> dict[str, Any]:
    """One episode of each run's policy, on the initial states that `penfac eval` uses."""
    check(wish)
    pyplot = window() if wish.video is None and wish.strip is None else None
    # an environment may change the folder of the process
    places = [run.absolute() for run in runs]
    video, strip = (file and file.absolute() for file in (wish.video, wish.strip))
    played = [play_one(place, wish) for place in places]
    played = [p._replace(run=run) for p, run in zip(played, runs, strict=True)]
    if video is not None:
        write_video(video, beside(played), played[0].per_second)
    if strip is not None:
        write_strip(strip, played, wish.pictures)
    if pyplot is not None:
        show(pyplot, beside(played), played[0].per_second)
    return {
        "episodes": [p.to_document() for p in played],
        "files": [str(file) for file in (wish.video, wish.strip) if file is not None],
    }


def play_one(run: Path, wish: Wish) -> Played:
    opened = Run.open(run)
    config, learner = opened.config, opened.learner(wish.seed)
    find_env(opened, wish.trust)
    policy = load_policy(learner.path, wish.best)
    with Call(config.env, "making it", Watch()):
        env = open_picture(config, wish.size)
    try:
        reset_seed = env_seed(learner.seed, Stream.PLAY_RESET, 0, wish.episode)
        with Call(config.env, "playing", Watch()):
            frames = record(env, policy, reset_seed, wish.steps)
        return Played(run, learner.seed, *frames)
    finally:
        with (
            contextlib.suppress(EnvironmentFault),
            Call(config.env, "close", Watch()),
        ):
            env.close()


def beside(played: list[Played]) -> list[np.ndarray]:
    """Frames side by side, each as high as the lowest; one that has ended stands still."""
    length, height = max(len(p.frames) for p in played), low(played)
    return [
        np.concatenate(
            [p.frames[min(t, len(p.frames) - 1)][:height] for p in played], 1
        )
        for t in range(length)
    ]


def low(played: list[Played]) -> int:
    return min(p.frames[0].shape[0] for p in played)


def window() -> Any:
    """matplotlib where it has a window to draw in."""
    import matplotlib

    if matplotlib.get_backend().lower() in ("agg", "svg", "pdf", "ps", "cairo"):
        raise ConfigError(
            "play: no window can open here; use --video FILE.mp4 or --strip FILE.png"
        )
    from matplotlib import pyplot

    return pyplot


def show(pyplot: Any, frames: list[np.ndarray], per_second: float) -> None:
    """In a window, as fast as it happened, until it is closed."""
    height, width = frames[0].shape[:2]
    figure = pyplot.figure(figsize=(width / 100, height / 100), dpi=100)
    picture = figure.add_axes((0, 0, 1, 1))
    picture.set_axis_off()
    image = picture.imshow(frames[0])
    began = time.monotonic()
    for t, drawn in enumerate(frames):
        late = time.monotonic() - began - t / per_second
        if late > 1 / per_second:
            continue  # a frame behind: leave it out
        image.set_data(drawn)
        pyplot.pause(max(0.001, -late))
        if not pyplot.fignum_exists(figure.number):
            return
    pyplot.show()


def check(wish: Wish) -> None:
    """Before anything is played."""
    if wish.video is not None and wish.video.suffix.lower() not in VIDEOS:
        raise ConfigError(f"--video {wish.video}: must end in {' or '.join(VIDEOS)}")
    if wish.strip is not None and wish.strip.suffix.lower() != ".png":
        raise ConfigError(f"--strip {wish.strip}: must end in .png")
    for name, least in (("steps", 1), ("pictures", 1), ("episode", 0)):
        if getattr(wish, name) < least:
            raise ConfigError(
                f"--{name} {getattr(wish, name)}: must be at least {least}"
            )


def open_picture(config: RunConfig, size: tuple[int, int]) -> gymnasium.Env:
    """The run's environment, drawing; its size where it takes one."""
    name, options = config.env.rpartition(":")[2], config.env_options
    choose_opengl()
    kwargs: dict[str, Any] = dict(options.kwargs) | {"render_mode": "rgb_array"}
    if options.max_episode_steps is not None:
        kwargs["max_episode_steps"] = options.max_episode_steps
    try:
        try:
            return gymnasium.make(name, width=size[0], height=size[1], **kwargs)
        except TypeError:  # it has a size of its own
            return gymnasium.make(name, **kwargs)
    except (gymnasium.error.Error, TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{name}: cannot draw ({error})") from None


def record(
    env: gymnasium.Env, policy: Policy, reset_seed: int, most: int
) -> tuple[list[np.ndarray], float, float, str]:
    """Frames, how many a second, the return, and how it ended."""
    obs, _ = env.reset(seed=reset_seed)
    frames, returned, ended = [frame(env)], 0.0, "cut"
    for _ in range(most):
        try:
            action = policy(obs)
        except ValueError as error:  # the environment gave what no controller can use
            raise EnvironmentFault(
                f"{env.spec.id if env.spec else env}: {error}"
            ) from None
        obs, reward, terminated, truncated, _ = env.step(action)
        frames.append(frame(env))
        returned += float(reward)
        if terminated or truncated:
            ended = "terminated" if terminated else "time limit"
            break
    rate = float(env.metadata.get("render_fps", 30))
    return frames, rate, returned, ended


def frame(env: gymnasium.Env) -> np.ndarray:
    drawn: Any = env.render()
    if not isinstance(drawn, np.ndarray) or drawn.ndim != 3:
        raise ConfigError(
            f"{env.spec.id if env.spec else env}: cannot draw (render returned no picture)"
        )
    return drawn


def write_video(file: Path, frames: list[Any], per_second: float) -> None:
    """Beside its place first, then under its name."""
    import imageio.v2 as imageio

    every = 1
    if file.suffix.lower() == ".gif":
        every = max(1, round(per_second / GIF_FRAMES))
    more: dict[str, Any] = {"fps": per_second / every}
    if file.suffix.lower() == ".gif":
        more = {"duration": 1000 * every / per_second, "loop": 0}
    else:
        more |= {"macro_block_size": 2, "quality": 8}
    part = file.with_name(f".{os.getpid()}-{file.name}")
    with storage(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            imageio.mimwrite(part, frames[::every], **more)
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)


def write_strip(file: Path, played: list[Played], pictures: int) -> None:
    """A row a run."""
    import imageio.v3 as imageio

    rows = [moments(p, pictures)[: low(played)] for p in played]
    wide = min(row.shape[1] for row in rows)
    drawn = np.concatenate([row[:, :wide] for row in rows], 0)
    make_folder(file.parent)
    data = imageio.imwrite("<bytes>", drawn, extension=".png")
    RunFolder(file.parent).write(file.name, data)


def moments(played: Played, pictures: int) -> np.ndarray:
    """Of the episode's second half, side by side: a gait on one line."""
    frames = played.frames[len(played.frames) // 2 :]
    # a tenth of a second apart, where the episode is long enough
    apart = min(max(1, round(played.per_second / 10)), max(1, len(frames) // pictures))
    chosen = frames[: apart * pictures : apart]
    w = chosen[0].shape[1]
    return np.concatenate([picture[:, w // 6 : w - w // 6] for picture in chosen], 1)
