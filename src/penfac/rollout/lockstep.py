"""Several players step the worlds of one environment together: one call each round.

A player is a generator. It yields the worlds to step and their actions, receives the
outcome, and returns its result. A player sees the rows of its own worlds only.
"""

from collections.abc import Generator, Hashable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from penfac.envs.stepped import Stepped
from penfac.envs.worlds import Worlds
from penfac.errors import PenfacError


class Ask(NamedTuple):
    """The worlds that a player wants to step."""

    rows: np.ndarray  # [k] numbers of worlds
    actions: np.ndarray  # [k, m] in the environment's units


Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Player = Generator[Ask, Stepped, Result]


def play_together(
    worlds: Worlds, players: dict[Key, Player[Result]]
) -> Iterator[tuple[Key, Result | PenfacError]]:
    """Run all players to their ends; yields each result or error as soon as it is there."""
    asks: dict[Key, Ask] = {}
    for key, player in players.items():
        yield from _resume(asks, key, player, None)
    while asks:
        if len(asks) == 1:
            ((key, ask),) = asks.items()
            answers = {key: worlds.step(*ask)}
        else:
            rows = np.concatenate([ask.rows for ask in asks.values()])
            actions = np.concatenate([ask.actions for ask in asks.values()])
            answers = _split(worlds.step(rows, actions), asks)
        for key, answer in answers.items():
            del asks[key]
            yield from _resume(asks, key, players[key], answer)


# an overflow becomes an infinity, which is reported later: no warning as well
@np.errstate(over="ignore", invalid="ignore")
def _resume(asks: dict, key, player: Player, answer: Stepped | None) -> list[tuple]:
    """Resume a player: its next question goes into `asks`, or its result is returned."""
    try:
        asks[key] = next(player) if answer is None else player.send(answer)
    except StopIteration as end:
        return [(key, end.value)]
    except PenfacError as error:
        return [(key, error)]
    return []


def _split(stepped: Stepped, asks: dict[Key, Ask]) -> dict[Key, Stepped]:
    """Give each player its own rows."""
    answers, start = {}, 0
    for key, ask in asks.items():
        end = start + len(ask.rows)
        answers[key] = part_of(stepped, start, end)
        start = end
    return answers


def part_of(stepped: Stepped, start: int, end: int) -> Stepped:
    """The rows from `start` on, before `end`."""
    part = slice(start, end)
    return Stepped(
        stepped.obs[part],
        stepped.reward[part],
        stepped.terminated[part],
        stepped.truncated[part],
        {name: term[part] for name, term in stepped.terms.items()},
        {i - start: f for i, f in stepped.faults.items() if start <= i < end},
    )


def play_alone(worlds: Worlds, player: Player[Result]) -> Result:
    """Run one player to its end; raises its error."""
    ((_, result),) = play_together(worlds, {0: player})
    if isinstance(result, PenfacError):
        raise result
    return result
