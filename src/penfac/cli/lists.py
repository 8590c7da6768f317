"""Commands that list what there is: algorithms, environments, presets."""

from typing import Annotated

from penfac.cli.app import app, command, reply
from penfac.cli.groups import argument
from penfac.cli.options import DEFAULT_ENV, Json


@command(app, group="Catalogue")
def algos(json_: Json = False) -> int:
    """List the algorithms and their sections in the paper."""
    from penfac.cli import answers, catalogue

    return reply(json_, catalogue.algorithms, answers.print_algorithms)


@command(app, group="Catalogue")
def envs(json_: Json = False) -> int:
    """List the environments that work out of the box.

    Any other Gymnasium id with continuous actions works too.
    """
    from penfac.cli import answers, catalogue

    return reply(json_, catalogue.environments, answers.print_environments)


@command(
    app,
    group="Catalogue",
    examples="penfac presets ddpg\npenfac presets penfac Hopper-v5",
)
def presets(
    algo: Annotated[
        str, argument("ALGO", "Algorithm; `penfac algos` lists them.")
    ] = "penfac",
    env: Annotated[
        str, argument("ENV", "Environment, as presets may differ by task.")
    ] = DEFAULT_ENV,
    json_: Json = False,
) -> int:
    """List every setting of an algorithm: its presets, its values, its meaning.

    Two columns are the values that the paper kept and searched.
    """
    from penfac.cli import answers, catalogue

    return reply(
        json_,
        lambda: catalogue.presets_table(algo, env),
        lambda table: answers.print_presets(table, algo, env),
    )


@command(app, group="Catalogue")
def version() -> int:
    """Print the version."""
    import penfac

    print(penfac.__version__)
    return 0
