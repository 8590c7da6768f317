"""`penfac card`: what a learned policy is, how well it does, and its limits.

Markdown with the front matter that Hugging Face reads.
"""

import json
import shlex
import statistics
from typing import Any, NamedTuple

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, printable
from penfac.policy import Policy
from penfac.report.markdown import code, text
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation, read_evaluations
from penfac.runs.learners import Learner
from penfac.settings import presets
from penfac.settings.configs import from_values, to_values


class LastEvaluation(NamedTuple):
    """The last evaluation of one seed."""

    seed: int
    step: int
    returns: list[float]
    best: Evaluation  # the one with the highest mean
    among: int  # how many there were


class Facts(NamedTuple):
    """The facts of a card."""

    config: RunConfig
    evaluations: list[LastEvaluation]
    policy: Policy  # of the first seed
    place: str  # of the run, as its reader may type it


def last_evaluation(learner: Learner) -> LastEvaluation:
    """The returns of the policy without noise when it was last evaluated."""
    points = read_evaluations(learner.path)
    if not points:
        raise ConfigError(f"{learner.path}: has no evaluation yet; train it first")
    last = max(points, key=lambda point: point.step)
    best = max(points, key=lambda point: point.mean)
    return LastEvaluation(learner.seed, last.step, last.returns, best, len(points))


class MeanReturn(NamedTuple):
    """A mean return and its standard deviation."""

    mean: float
    spread: float
    over: str  # what the deviation is over

    def __str__(self) -> str:
        return f"{self.mean:.2f} +/- {self.spread:.2f}"


def mean_return(evaluations: list[LastEvaluation]) -> MeanReturn:
    """Over seeds; of a single seed over its episodes, which `over` says."""
    means = [statistics.fmean(one.returns) for one in evaluations]
    numbers, over = means, f"{len(evaluations)} seeds"
    if len(evaluations) == 1:
        numbers = evaluations[0].returns
        over = f"{len(numbers)} episodes of 1 seed"
    spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    return MeanReturn(statistics.fmean(numbers), spread, over)


def card(facts: Facts) -> str:
    """The whole page."""
    parts = (
        front_matter, opening, returns, learned, loading, spaces, reproducing, limits
    )  # fmt: skip
    return "\n".join(part(facts) for part in parts)


def front_matter(facts: Facts) -> str:
    """YAML; every string as JSON has it, which YAML reads as the same."""
    env, algo = map(json.dumps, (facts.config.env, facts.config.algo))
    name = json.dumps(f"{facts.config.algo} on {facts.config.env}")
    tags = "reinforcement-learning", "deep-reinforcement-learning", "continuous-control"
    lines = [
        "library_name: penfac",
        "tags:",
        *(f"- {tag}" for tag in (*tags, env, algo)),
        "model-index:",
        f"- name: {name}",
        "  results:",
        "  - task:",
        "      type: reinforcement-learning",
        "      name: reinforcement-learning",
        "    dataset:",
        f"      name: {env}",
        f"      type: {env}",
        "    metrics:",
        "    - type: mean_reward",
        f"      value: {json.dumps(str(mean_return(facts.evaluations)))}",
        "      name: mean_reward",
        "      verified: false",
    ]
    return "\n".join(["---", *lines, "---", ""])


def opening(facts: Facts) -> str:
    c = facts.config
    summary = ALGORITHMS[c.algo].summary
    return f"""# {c.algo} on {text(c.env)}

A deterministic controller for {code(c.env)}, learned by `{c.algo}` ({summary})
of penfac {text(c.penfac)}. It needs numpy and safetensors, no JAX.
"""


def returns(facts: Facts) -> str:
    """All seeds, none chosen."""
    found = mean_return(facts.evaluations)
    rows = [
        f"| {one.seed} | {one.step:,} | {statistics.fmean(one.returns):.2f} "
        f"| {min(one.returns):.2f} | {max(one.returns):.2f} | {len(one.returns)} |"
        for one in facts.evaluations
    ]
    table = "\n".join(rows)
    return f"""## What it is worth

Return of the last evaluation, without noise: **{found}**,
mean and standard deviation over {found.over}.
It is the policy as training left it, no seed and no moment chosen.

| seed | step | mean | least | most | episodes |
|---|---|---|---|---|---|
{table}

On states that training never used:

    penfac eval {typed(facts.place)} --episodes 100

{best_of(facts)}"""


def best_of(facts: Facts) -> str:
    """What `policy-best` is; its return was chosen, so it promises too much."""
    rows = [
        f"- seed {one.seed}: step {one.best.step}, {one.best.mean:.2f} over "
        f"{len(one.best.returns)} episodes, the best of {one.among} evaluations"
        for one in facts.evaluations
    ]
    listed = "\n".join(rows)
    return f"""`policy-best` is the policy of the evaluation with the highest mean. It was chosen by
these returns, so expect less on new states; `penfac eval --best` measures that:

{listed}
"""


def learned(facts: Facts) -> str:
    """The budget, and every setting that differs from its default."""
    c = facts.config
    default = to_values(ALGORITHMS[c.algo].config())
    rows = [
        f"| `{key}` | {shown(value)} | {shown(default[key])} |"
        for key, value in to_values(c.settings).items()
        if value != default[key]
    ]
    table = "\n".join(["| setting | here | default |", "|---|---|---|", *rows])
    seeds = ", ".join(map(str, c.seeds))
    return f"""## How it was learned

{c.steps:,} environment steps for each seed ({seeds}), preset {code(c.preset)}.

{table if rows else "Every setting is the default."}
"""


def loading(facts: Facts) -> str:
    several = len(facts.evaluations) > 1
    place = (
        f"{facts.place}/seed-{facts.evaluations[0].seed}" if several else facts.place
    )
    return f"""## How to use it

    from penfac import Policy
    policy = Policy.load({json.dumps(place)})   # or the file policy.safetensors alone
    action = policy(observation)      # one state or a batch; the same action every time

As ONNX, or as a C header without dependencies:

    penfac export {typed(place)} --onnx policy.onnx --c policy.h
"""


def typed(place: str) -> str:
    """A path as a shell takes it, on one line."""
    return printable(" ".join(shlex.quote(place).splitlines()))


def spaces(facts: Facts) -> str:
    w, actions = facts.policy.weights, facts.policy.actions
    clip = "" if w.clip == float("inf") else f", clipped at {w.clip:g} deviations"
    how = f"normalised inside{clip}" if w.tiling is None else "tile-coded inside"
    sizes = " x ".join(str(len(bias)) for _, bias in w.layers)
    ends = zip(actions.low.tolist(), actions.high.tolist(), strict=True)
    listed = list(dict.fromkeys(f"[{low:g}, {high:g}]" for low, high in ends))
    return f"""## What goes in and out

- observation: {len(w.mean)} numbers as the environment gives them, {how}
- action: {actions.low.dtype} of shape {list(actions.shape)} in {", ".join(listed)}; never outside
- network: layers of {sizes}, {w.activation} between, {w.output} at the end
- a NaN or an infinity in the observation is refused
"""


def reproducing(facts: Facts) -> str:
    c = facts.config
    command = c.command or rebuild_command(c)
    versions = ", ".join(f"{k} {v}" for k, v in (c.versions or {}).items())
    return f"""## How to get it again

    {printable(" ".join(command.split()))}

penfac {text(c.penfac)}; {text(versions) or "other versions were not kept"}.
With these versions the same kind of machine learns it again; a CPU to the bit.
"""


def limits(facts: Facts) -> str:
    c = facts.config
    options = {k: v for k, v in vars(c.env_options).items() if v}
    more = f" with {code(json.dumps(options))}" if options else ""
    seeds = ", ".join(map(str, c.seeds))
    return f"""## What it has not been tried on

- anything but {code(c.env)}{more}: other physics, masses, delays, sensor noise, a real robot
- states far from those of training: there it acts, inside the bounds, without having learned to
- other seeds than {seeds}: another seed learns another policy
- safety: nothing here limits a speed, a force or a temperature; the bounds of the action are all
"""


# --- the command, where none was kept -----------------------------------------------------


def rebuild_command(config: RunConfig) -> str:
    """A `penfac train` that asks for the same."""
    c, options = config, config.env_options
    seeds = ",".join(map(str, c.seeds))
    words = ["penfac", "train", "--env", c.env, "--algo", c.algo]
    words += ["--preset", c.preset or "tuned", "--steps", str(c.steps)]
    words += ["--seeds" if "," in seeds else "--seed", seeds]
    words += ["--from", c.start_from] if c.start_from else []
    words += ["--on", "device" if c.engine == "device" else "cpu"]
    words += ["--eval-every", str(c.eval_every)]
    if c.eval_unit == "episodes":
        words += ["--eval-protocol", "authors"]
    else:
        words += ["--eval-episodes", str(c.eval_episodes)]
    if options.max_episode_steps:
        words += ["--max-episode-steps", str(options.max_episode_steps)]
    if options.action_bounds:
        low, high = options.action_bounds
        words += [f"--action-bounds={low},{high}"]
    words += ["--flatten-obs"] if options.flatten_obs else []
    for key, value in options.kwargs.items():
        words += ["--env-arg", f"{key}={json.dumps(value)}"]
    words += ["--env-restarts", str(c.restarts)] if c.restarts else []
    words += [f"--set={k}={shown(v)}" for k, v in changed_settings(c).items()]
    return shlex.join(words)


def changed_settings(config: RunConfig) -> dict[str, Any]:
    """Where a config leaves its preset; all of it where the preset is not here."""
    algo, values = ALGORITHMS[config.algo], to_values(config.settings)
    try:
        block = presets.preset(algo.presets, config.preset or "tuned", config.env)
    except ConfigError:
        return values
    begin = to_values(from_values(algo.config, block | dict(algo.overrides)))
    return {key: value for key, value in values.items() if value != begin.get(key)}


def shown(value: Any) -> str:
    """As `--set` takes it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)
