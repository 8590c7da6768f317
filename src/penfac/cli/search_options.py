"""Options of a search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from penfac.cli import arguments
from penfac.cli.groups import option
from penfac.errors import ConfigError

if TYPE_CHECKING:
    from penfac.search import halving


@dataclass
class Search:
    """The search."""

    configs: Annotated[
        int,
        option("N", "Number of configurations of each search, including the preset."),
    ] = 64
    halvings: Annotated[
        int,
        option(
            "N",
            "Rounds of successive halving: the worse half stops at 1/2, 1/4, ... "
            "of the steps.",
        ),
    ] = 1
    seeds: Annotated[
        str, option("LIST", "Seeds to search on; report results on others.")
    ] = "1000-1002"
    space: Annotated[
        str,
        option("NAME", "Search space: default, paper (its tables), or a .toml file."),
    ] = "default"
    draw: Annotated[int, option("N", "Seed of the random configurations.")] = 0
    processes: Annotated[
        int | None, option("N", "Processes without an accelerator.  [default: cores]")
    ] = None

    def asked(self, **more: Any) -> "halving.Search":
        from penfac.search import halving

        drawn = (self.configs, self.halvings, self.space, self.draw, self.processes)
        return halving.Search(*drawn, **more)

    def seed_list(self) -> tuple[int, ...]:
        return arguments.seed_list(self.seeds)


@dataclass
class Sampler:
    """The search."""

    sampler: Annotated[
        str,
        option(
            "NAME",
            "How to choose configurations: random, all at once; or tpe, each from the "
            "results so far (Optuna).",
        ),
    ] = "random"
    study: Annotated[
        str | None,
        option("NAME", "Name of the search. The same command again continues it."),
    ] = None
    storage: Annotated[
        str | None,
        option(
            "URL",
            "Database for Optuna's study, such as sqlite:///search.db.  [default: a "
            "journal in the folder]",
        ),
    ] = None

    def named(self, name: str | None) -> str | None:
        """The name of the folder: of --study or --name."""
        from penfac.training.place import check_place

        if self.study is not None and name is not None:
            raise ConfigError(f"--name {name}: leave it out; --study is the name")
        check_place("auto", self.study)
        return name if self.study is None else self.study
