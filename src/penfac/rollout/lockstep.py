"""Several players on the worlds of one environment: each round is one call for all.

A player is a generator. It yields which worlds to step with which actions, gets back what
they gave, and returns its result. Players never meet: each sees its own rows alone.
"""

from collections.abc import Generator, Hashable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from penfac.envs.worlds import Stepped, Worlds
from penfac.errors import PenfacError


class Ask(NamedTuple):
    rows: np.ndarray  # [k] which worlds
    actions: np.ndarray  # [k, m] in the environment's units


Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Player = Generator[Ask, Stepped, Result]


def play_together(
    worlds: Worlds, players: dict[Key, Player[Result]]
) -> Iterator[tuple[Key, Result | PenfacError]]:
    """Play all to their ends; whoever is done or failed is given at once."""
    asks: dict[Key, Ask] = {}
    for key, player in players.items():
        yield from _think(asks, key, player, None)
    while asks:
        if len(asks) == 1:
            ((key, ask),) = asks.items()
            answers = {key: worlds.step(*ask)}
        else:
            rows = np.concatenate([ask.rows for ask in asks.values()])
            actions = np.concatenate([ask.actions for ask in asks.values()])
            answers = _share(worlds.step(rows, actions), asks)
        for key, answer in answers.items():
            del asks[key]
            yield from _think(asks, key, players[key], answer)


# overflow makes an infinity that is caught as such; a warning would say it twice
@np.errstate(over="ignore", invalid="ignore")
def _think(asks: dict, key, player: Player, answer: Stepped | None) -> list[tuple]:
    """One player's turn: its next question goes into `asks`, its result comes out."""
    try:
        asks[key] = next(player) if answer is None else player.send(answer)
    except StopIteration as end:
        return [(key, end.value)]
    except PenfacError as error:
        return [(key, error)]
    return []


def _share(stepped: Stepped, asks: dict[Key, Ask]) -> dict[Key, Stepped]:
    """To each player its own rows."""
    answers, start = {}, 0
    for key, ask in asks.items():
        end = start + len(ask.rows)
        own = slice(start, end)
        answers[key] = Stepped(
            stepped.obs[own],
            stepped.reward[own],
            stepped.terminated[own],
            stepped.truncated[own],
            {name: term[own] for name, term in stepped.terms.items()},
            {i - start: f for i, f in stepped.faults.items() if start <= i < end},
        )
        start = end
    return answers


def play_alone(worlds: Worlds, player: Player[Result]) -> Result:
    """One player to its end."""
    ((_, result),) = play_together(worlds, {0: player})
    if isinstance(result, PenfacError):
        raise result
    return result
