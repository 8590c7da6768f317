"""`penfac card`: what a learned policy is, is worth and has not been tried on.

Markdown with the front matter that Hugging Face reads.
"""

import json
import shlex
import statistics
from typing import Any, NamedTuple

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.policy import Policy
from penfac.runs.folder import read_csv
from penfac.runs.learners import Document, Learner
from penfac.settings import presets
from penfac.settings.configs import from_values, to_values


class Judged(NamedTuple):
    """The last evaluation of one seed."""

    seed: int
    step: int
    returns: list[float]


class Facts(NamedTuple):
    """All that a card tells."""

    document: Document  # config.json
    judged: list[Judged]
    policy: Policy  # of the first seed
    place: str  # of the run, as its reader may type it


def last_evaluation(learner: Learner) -> Judged:
    """What mu without noise was worth when it was last played."""
    rows = read_csv(learner.path / "evaluations.csv")
    rows = [row for row in rows if row["mode"] == "mean"]
    if not rows:
        raise ConfigError(f"{learner.path}: has no evaluation yet; train it first")
    step = max(int(row["step"]) for row in rows)
    returns = [float(row["return"]) for row in rows if int(row["step"]) == step]
    return Judged(learner.seed, step, returns)


class Worth(NamedTuple):
    mean: float
    spread: float
    over: str  # what the spread is over

    def __str__(self) -> str:
        return f"{self.mean:.2f} +/- {self.spread:.2f}"


def worth(judged: list[Judged]) -> Worth:
    """Over seeds; of a single seed over its episodes, and that is said."""
    means = [statistics.fmean(one.returns) for one in judged]
    numbers, over = means, f"{len(judged)} seeds"
    if len(judged) == 1:
        numbers = judged[0].returns
        over = f"{len(numbers)} episodes of 1 seed"
    spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    return Worth(statistics.fmean(numbers), spread, over)


def card(facts: Facts) -> str:
    """The whole page."""
    parts = (
        front_matter, opening, returns, learned, loading, spaces, reproducing, limits
    )  # fmt: skip
    return "\n".join(part(facts) for part in parts)


def front_matter(facts: Facts) -> str:
    """YAML; every string as JSON has it, which YAML reads as the same."""
    env, algo = map(json.dumps, (facts.document["env"], facts.document["algo"]))
    name = json.dumps(f"{facts.document['algo']} on {facts.document['env']}")
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
        f"      value: {json.dumps(str(worth(facts.judged)))}",
        "      name: mean_reward",
        "      verified: false",
    ]
    return "\n".join(["---", *lines, "---", ""])


def opening(facts: Facts) -> str:
    d = facts.document
    summary = ALGORITHMS[d["algo"]].summary
    return f"""# {d["algo"]} on {d["env"]}

A deterministic controller for `{d["env"]}`, learned by `{d["algo"]}` ({summary})
of penfac {d["penfac"]}. It needs numpy and safetensors, no JAX.
"""


def returns(facts: Facts) -> str:
    """All seeds, none chosen."""
    found = worth(facts.judged)
    rows = [
        f"| {one.seed} | {one.step:,} | {statistics.fmean(one.returns):.2f} "
        f"| {min(one.returns):.2f} | {max(one.returns):.2f} | {len(one.returns)} |"
        for one in facts.judged
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

    penfac eval {shlex.quote(facts.place)} --episodes 100
"""


def learned(facts: Facts) -> str:
    """The budget, and every setting that is not the usual one."""
    d = facts.document
    usual = to_values(from_values(ALGORITHMS[d["algo"]].config, {}))
    rows = [
        f"| `{key}` | {shown(value)} | {shown(usual.get(key))} |"
        for key, value in d["config"].items()
        if value != usual.get(key)
    ]
    table = "\n".join(["| setting | here | default |", "|---|---|---|", *rows])
    seeds = ", ".join(map(str, d["seeds"]))
    return f"""## How it was learned

{d["steps"]:,} environment steps for each seed ({seeds}), preset `{d.get("preset")}`.

{table if rows else "Every setting is the default."}
"""


def loading(facts: Facts) -> str:
    several = len(facts.judged) > 1
    place = f"{facts.place}/seed-{facts.judged[0].seed}" if several else facts.place
    return f"""## How to use it

    from penfac import Policy
    policy = Policy.load({json.dumps(place)})   # or the file policy.safetensors alone
    action = policy(observation)      # one state or a batch; the same action every time

As ONNX, or as a C header without dependencies:

    penfac export {shlex.quote(place)} --onnx policy.onnx --c policy.h
"""


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
    d = facts.document
    command = d.get("command") or rebuilt(d)
    versions = ", ".join(f"{k} {v}" for k, v in d.get("versions", {}).items())
    return f"""## How to get it again

    {" ".join(command.split())}

penfac {d["penfac"]}; {versions or "other versions were not kept"}.
With these versions the same kind of machine learns it again; a CPU to the bit.
"""


def limits(facts: Facts) -> str:
    d = facts.document
    options = {k: v for k, v in d["env_options"].items() if v}
    more = f" with {json.dumps(options)}" if options else ""
    seeds = ", ".join(map(str, d["seeds"]))
    return f"""## What it has not been tried on

- anything but `{d["env"]}`{more}: other physics, masses, delays, sensor noise, a real robot
- states far from those of training: there it acts, inside the bounds, without having learned to
- other seeds than {seeds}: another seed learns another policy
- safety: nothing here limits a speed, a force or a temperature; the bounds of the action are all
"""


# --- the command, where none was kept -----------------------------------------------------


def rebuilt(document: Document) -> str:
    """A `penfac train` that asks for the same."""
    d, options = document, document["env_options"]
    seeds = ",".join(map(str, d["seeds"]))
    words = ["penfac", "train", "--env", d["env"], "--algo", d["algo"]]
    words += ["--preset", d.get("preset", "tuned"), "--steps", str(d["steps"])]
    words += ["--seeds" if "," in seeds else "--seed", seeds]
    words += ["--on", "device" if d["engine"] == "device" else "cpu"]
    words += ["--eval-every", str(d["eval_every"])]
    if d["eval_unit"] == "episodes":
        words += ["--eval-protocol", "authors"]
    else:
        words += ["--eval-episodes", str(d["eval_episodes"])]
    if options.get("max_episode_steps"):
        words += ["--max-episode-steps", str(options["max_episode_steps"])]
    if options.get("action_bounds"):
        low, high = options["action_bounds"]
        words += [f"--action-bounds={low},{high}"]
    words += ["--flatten-obs"] if options.get("flatten_obs") else []
    for key, value in (options.get("kwargs") or {}).items():
        words += ["--env-arg", f"{key}={json.dumps(value)}"]
    words += ["--env-restarts", str(d["restarts"])] if d["restarts"] else []
    words += [f"--set={key}={shown(value)}" for key, value in own_settings(d).items()]
    return shlex.join(words)


def own_settings(document: Document) -> dict[str, Any]:
    """Where a config leaves its preset; all of it where the preset is not here."""
    algo = ALGORITHMS[document["algo"]]
    try:
        name = document.get("preset", "tuned")
        values = presets.preset(algo.presets, name, document["env"])
    except ConfigError:
        return document["config"]
    usual = to_values(from_values(algo.config, values | dict(algo.overrides)))
    config = document["config"]
    return {key: value for key, value in config.items() if value != usual.get(key)}


def shown(value: Any) -> str:
    """As `--set` takes it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)
