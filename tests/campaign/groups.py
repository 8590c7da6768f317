"""The groups of the campaign, in the order in which they run."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.campaign import (
    damage,
    drivers,
    environments,
    faults,
    kills,
    places,
    points,
    signals,
    soak,
)
from tests.campaign.case import Case


class Group(NamedTuple):
    """Faults of one kind; `prepare` makes what their cases start from."""

    cases: Callable[[Path, random.Random], list[Case]]
    prepare: Callable[[Path], None] | None = None


GROUPS = {
    "kills": Group(kills.cases),
    "writes": Group(points.cases, points.prepare),
    "drivers": Group(drivers.cases, drivers.prepare),
    "damage": Group(damage.cases, damage.prepare),
    "environments": Group(environments.cases, environments.prepare),
    "places": Group(places.cases, places.prepare),
    "signals": Group(signals.cases, signals.prepare),
    "faults": Group(faults.cases),
    "soak": Group(soak.cases),
}
