"""`penfac play`: a learned policy to look at, as a video or as a strip of pictures."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from penfac.envs.gym import check_id
from penfac.envs.opengl import choose_opengl
from penfac.errors import ConfigError, EnvironmentFault
from penfac.judge import load_policy
from penfac.learners import one_of
from penfac.policy import Policy
from penfac.randomness import Stream, env_seed
from penfac.request import check_document, env_options
from penfac.runs import read_config, storage

VIDEOS = (".mp4", ".webm", ".gif")
GIF_FRAMES = 25  # a second: more than browsers like to show


class Wish(NamedTuple):
    """What to play and where to leave it."""

    video: Path | None = None
    strip: Path | None = None
    seed: int | None = None  # of the run; none: its first
    episode: int = 0
    steps: int = 1000
    pictures: int = 8
    size: tuple[int, int] = (480, 360)


class Played(NamedTuple):
    frames: list[np.ndarray]
    per_second: float
    returned: float
    ended: str  # terminated, time limit, or cut


def play(run: Path, wish: Wish) -> dict[str, Any]:
    """One episode of a run's policy, on the initial states that `penfac eval` uses."""
    check(wish)
    document = read_config(run)
    check_document(run / "config.json", document)
    check_id(document["env"])
    _, seed, folder = one_of(run, document, wish.seed)
    policy = load_policy(folder)
    env = open_picture(document, wish.size)
    try:
        reset_seed = env_seed(seed, Stream.PLAY_RESET, 0, wish.episode)
        played = record(env, policy, reset_seed, wish.steps)
    except gymnasium.error.Error as error:
        raise EnvironmentFault(f"{document['env']}: {error}") from error
    finally:
        env.close()
    if wish.video is not None:
        write_video(wish.video, played)
    if wish.strip is not None:
        write_strip(wish.strip, played, wish.pictures)
    return {
        "return": played.returned,
        "length": len(played.frames) - 1,
        "ended": played.ended,
        "files": [str(file) for file in (wish.video, wish.strip) if file is not None],
    }


def check(wish: Wish) -> None:
    """Before anything is played."""
    if wish.video is None and wish.strip is None:
        raise ConfigError("play: say where to, --video FILE.mp4 or --strip FILE.png")
    if wish.video is not None and wish.video.suffix.lower() not in VIDEOS:
        raise ConfigError(f"--video {wish.video}: ends in {', '.join(VIDEOS)}")
    if wish.strip is not None and wish.strip.suffix.lower() != ".png":
        raise ConfigError(f"--strip {wish.strip}: ends in .png")
    for name, least in (("steps", 1), ("pictures", 1), ("episode", 0)):
        if getattr(wish, name) < least:
            raise ConfigError(f"--{name} {getattr(wish, name)}: needs at least {least}")


def open_picture(document: dict[str, Any], size: tuple[int, int]) -> gymnasium.Env:
    """The run's environment, drawing; its size where it takes one."""
    name, options = document["env"].rpartition(":")[2], env_options(document)
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


def record(env: gymnasium.Env, policy: Policy, reset_seed: int, most: int) -> Played:
    obs, _ = env.reset(seed=reset_seed)
    frames, returned, ended = [frame(env)], 0.0, "cut"
    for _ in range(most):
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        frames.append(frame(env))
        returned += float(reward)
        if terminated or truncated:
            ended = "terminated" if terminated else "time limit"
            break
    rate = float(env.metadata.get("render_fps", 30))
    return Played(frames, rate, returned, ended)


def frame(env: gymnasium.Env) -> np.ndarray:
    drawn: Any = env.render()
    if not isinstance(drawn, np.ndarray) or drawn.ndim != 3:
        raise ConfigError(f"{env.spec.id if env.spec else env}: draws no pictures")
    return drawn


def write_video(file: Path, played: Played) -> None:
    """Beside its place first, then under its name."""
    import imageio.v2 as imageio

    every = 1
    if file.suffix.lower() == ".gif":
        every = max(1, round(played.per_second / GIF_FRAMES))
    more: dict[str, Any] = {"fps": played.per_second / every}
    if file.suffix.lower() == ".gif":
        more = {"duration": 1000 * every / played.per_second, "loop": 0}
    else:
        more |= {"macro_block_size": 2, "quality": 8}
    part = file.with_name(f".{os.getpid()}-{file.name}")
    with storage(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            frames: list[Any] = played.frames[::every]
            imageio.mimwrite(part, frames, **more)
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)


def write_strip(file: Path, played: Played, pictures: int) -> None:
    """Moments of the episode's second half, side by side: a gait on one line."""
    import imageio.v3 as imageio

    frames = played.frames[len(played.frames) // 2 :]
    # a tenth of a second apart, where the episode is long enough
    apart = min(max(1, round(played.per_second / 10)), max(1, len(frames) // pictures))
    chosen = frames[: apart * pictures : apart]
    w = chosen[0].shape[1]
    middle = [picture[:, w // 6 : w - w // 6] for picture in chosen]
    with storage(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        data = imageio.imwrite("<bytes>", np.concatenate(middle, 1), extension=".png")
        part = file.with_name(f".{os.getpid()}-{file.name}")
        part.write_bytes(data)
        os.replace(part, file)
