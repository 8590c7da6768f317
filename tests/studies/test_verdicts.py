"""Verdicts on made-up scores, where it is known what they should be."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from penfac import stats
from penfac.studies.claims import Claim, Side
from penfac.studies.verdicts import Activity, judge

ENV = "e"


def looking(scores, initial=0.0):
    """Scores by (arm, mode) or arm; the first policy is worth `initial`."""

    def look(env, side, measure):
        found = scores.get((side.arm, side.mode), scores.get(side.arm, []))
        if measure == "initial":
            return dict.fromkeys(range(len(found)), initial)
        return dict(enumerate(found))

    return look


def welch_p(a, b):
    return ttest_ind(a, b, equal_var=False).pvalue


def draw(mean, n=20, std=1.0, seed=0):
    return list(mean + std * np.random.default_rng(seed).normal(size=n))


def verdict(line, scores, **claim):
    arms = [a for a in scores if isinstance(a, str)]
    return judge(Claim("w", (line,), **claim), [ENV], arms, looking(scores))


FAR = {"a": draw(3, seed=1), "b": draw(0, seed=2)}
NEAR = {"a": draw(0.2, seed=1), "b": draw(0, seed=2)}
SAME = {"a": draw(0, n=100, seed=3), "b": draw(0, n=100, seed=4)}


@pytest.mark.parametrize(
    ("line", "scores", "wanted"),
    [
        ("a above b", FAR, "holds"),
        ("b above a", FAR, "contradicted"),
        ("a above b", NEAR, "not shown"),
        ("a level with b", SAME, "holds"),
        ("a level with b", FAR, "contradicted"),
        ("a level with b", NEAR, "not shown"),
        ("a not below b", FAR, "holds"),
        ("a not below b", SAME, "holds"),
        ("b not below a", FAR, "contradicted"),
        ("b learns nothing", {"a": draw(100, seed=1), "b": draw(0, seed=2)}, "holds"),
        ("b learns nothing", {"a": draw(100), "b": draw(50)}, "contradicted"),
        ("b learns nothing", {"a": draw(100), "b": draw(10, std=9)}, "not shown"),
        ("a above b", {"a": draw(3, n=1), "b": draw(0)}, "not run"),
        ("a above b", {"a": [], "b": []}, "not run"),
    ],
)
def test_a_verdict(line, scores, wanted):
    assert verdict(line, scores)["verdict"] == wanted


def test_the_numbers_are_those_of_the_statistics():
    (row,) = verdict("a above b", NEAR)["comparisons"]
    d = stats.welch(NEAR["a"], NEAR["b"])
    assert (row["difference"], row["low"], row["high"]) == pytest.approx(d[:3])
    assert row["p"] == pytest.approx(welch_p(NEAR["a"], NEAR["b"]))
    assert row["probability"] == stats.improvement(NEAR["a"], NEAR["b"]).p
    assert row["n"] == [20, 20]


def test_level_is_two_one_sided_tests():
    """Of scipy, with the margin in pooled standard deviations; the larger p counts."""
    found = verdict("a level with b", SAME)["comparisons"][0]
    a, b = map(np.array, SAME.values())
    margin = 0.5 * stats.welch(a, b).pooled
    above = ttest_ind(a + margin, b, equal_var=False, alternative="greater").pvalue
    below = ttest_ind(a - margin, b, equal_var=False, alternative="less").pvalue
    assert found["p"] == pytest.approx(max(above, below))


def test_two_judgements_of_one_policy_are_pairs():
    """A small difference in every seed shows, whatever the spread between seeds."""
    worth = draw(0, n=10, std=100)
    scores = {("p", "mean"): [x + 1 for x in worth], ("p", "sampled"): worth}
    look = looking(scores)
    found = judge(Claim("w", ("p not below p[sampled]",)), [ENV], ["p"], look)
    assert found["verdict"] == "holds"
    row = found["comparisons"][0]
    assert row["low"] == pytest.approx(1) == pytest.approx(row["high"])


def test_an_interaction_is_a_difference_of_differences():
    scores = {"a": draw(5), "b": draw(0), "c": draw(1), "d": draw(0)}
    found = verdict("a - b above c - d", scores)
    assert found["verdict"] == "holds"
    row = found["comparisons"][0]
    assert row["difference"] == pytest.approx(4)
    assert row["probability"] is None
    swapped = verdict("c - d above a - b", scores)
    assert swapped["verdict"] == "contradicted"


def test_a_mean_that_a_few_seeds_make_is_not_enough():
    """Welch sees a difference; that a run of a beats one of b is not shown, and told."""
    split = [370, 430, 480, 860, 1650, 1790, 1810, 1950, 2010, 2130]
    scores = {"a": split, "b": [590, 610, 640, 660, 700, 740, 790, 860, 1010, 1240]}
    found = verdict("a above b", scores)
    row = found["comparisons"][0]
    assert row["p"] < 0.05
    assert row["probability_low"] < 0.5
    assert found["verdict"] == "not shown"
    assert "a above b: the means differ, but" in found["reason"]
    assert "means differ" not in verdict("a above b", NEAR)["reason"]


def test_all_comparisons_must_hold_and_holm_counts_them():
    claim = Claim("w", ("a above b", "a above c"))
    scores = FAR | {"c": draw(3.0, seed=5)}
    found = judge(claim, [ENV], list(scores), looking(scores))
    assert [r["verdict"] for r in found["comparisons"]] == ["holds", "not shown"]
    assert found["verdict"] == "not shown"
    assert "holds: 1 of 2; not shown: 1 of 2" in found["reason"]
    ps = [r["p"] for r in found["comparisons"]]
    assert [r["p_holm"] for r in found["comparisons"]] == stats.holm(ps)


def test_one_that_is_contradicted_contradicts():
    claim = Claim("w", ("a above b", "b above a"))
    found = judge(claim, [ENV], list(FAR), looking(FAR))
    assert found["verdict"] == "contradicted"


def test_environments_without_runs_are_told_beside_those_with():
    def look(env, side, measure):
        return looking(FAR)(env, side, measure) if env == "there" else {}

    found = judge(Claim("w", ("a above b",)), ["there", "not"], ["a", "b"], look)
    assert [r["verdict"] for r in found["comparisons"]] == ["holds", "not run"]
    assert found["verdict"] == "not shown"
    only = judge(
        Claim("w", ("a above b",), envs=("there",)), ["there", "not"], [], look
    )
    assert only["verdict"] == "holds"


# --- what a claim rests on ---------------------------------------------------------------

NEED = "a: beta above beta_min"


def rests(share, known=20, unknown=0, **claim):
    """The verdict on `a above b` where a's condition held in that share of updates."""
    act = lambda env, need: Activity(share, known, unknown)  # noqa: E731
    found = Claim("w", ("a above b",), needs=(NEED,), **claim)
    return judge(found, [ENV], ["a", "b"], looking(FAR), act)


def test_what_did_not_act_is_not_tested():
    """Its numbers stay; the verdict says nothing of them, and the warning says why."""
    found = rests(0.02)
    assert found["verdict"] == "not tested"
    (row,) = found["comparisons"]
    assert row["verdict"] == "not tested"
    assert row["difference"] == pytest.approx(stats.welch(FAR["a"], FAR["b"])[0])
    (warning,) = found["warnings"]
    assert "beta above beta_min in a on e: in 2.0% of the updates" in warning


def test_what_acted_is_judged():
    found = rests(0.1)
    assert (found["verdict"], found["warnings"]) == ("holds", [])


def test_what_is_not_known_is_said_and_not_guessed():
    found = rests(None, known=0, unknown=20)
    assert found["verdict"] == "holds"
    (warning,) = found["warnings"]
    assert "not known" in warning
    (warning,) = rests(0.5, known=3, unknown=17)["warnings"]
    assert "known for 3 of 20 runs" in warning


def test_one_environment_is_tested_and_another_not():
    def act(env, need):
        return Activity(0.0 if env == "idle" else 1.0, 20, 0)

    claim = Claim("w", ("a above b",), needs=(NEED,))
    found = judge(claim, ["idle", "busy"], ["a", "b"], looking(FAR), act)
    assert [r["verdict"] for r in found["comparisons"]] == ["not tested", "holds"]
    assert found["verdict"] == "not shown"
    alone = [r["p_holm"] for r in found["comparisons"]][1]
    assert alone == pytest.approx(welch_p(FAR["a"], FAR["b"]))  # counted once


# --- several measures, and changes between environments ----------------------------------


def test_a_claim_is_judged_by_each_of_its_measures():
    """Ahead over the whole curve and behind at its end: both stand there."""

    def look(env, side, measure):
        first = draw(3 if measure == "area" else -3, seed=1)
        return dict(enumerate(first if side.arm == "a" else draw(0, seed=2)))

    claim = Claim("w", ("a above b",), measure="final, area")
    found = judge(claim, [ENV], ["a", "b"], look)
    assert [r["measure"] for r in found["comparisons"]] == ["final", "area"]
    assert found["measures"] == {"final": "contradicted", "area": "holds"}
    assert found["verdict"] == "contradicted"


def test_a_change_is_a_difference_of_differences():
    """a stands above b in both places and falls further: it is the more sensitive."""
    worth = {
        ("small", "a"): 10,
        ("small", "b"): 5,
        ("large", "a"): 6,
        ("large", "b"): 4,
    }

    def look(env, side, measure):
        seed = sum(map(ord, env + side.arm))
        return dict(enumerate(draw(worth[env, side.arm], n=40, seed=seed)))

    def verdict_of(line):
        claim = Claim("w", (line,), changes=(("small", "large"),))
        return judge(claim, ["small", "large"], ["a", "b"], look)

    found = verdict_of("b above a")
    assert found["verdict"] == "holds"
    (row,) = found["comparisons"]
    samples = [
        list(look(env, Side(arm), "final").values())
        for env, arm in (("large", "b"), ("large", "a"), ("small", "b"), ("small", "a"))
    ]
    wanted = stats.contrast(samples, (1.0, -1.0, -1.0, 1.0))
    assert (row["difference"], row["low"]) == pytest.approx((wanted.value, wanted.low))
    assert row["env"] == "small to large"
    assert row["probability"] is None
    assert verdict_of("a above b")["verdict"] == "contradicted"


@pytest.mark.slow
def test_under_the_null_hypothesis_few_claims_hold():
    """Nothing differs: `holds` and `contradicted` together in about 5 of 100."""
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        scores = {"a": list(random.normal(size=10)), "b": list(random.normal(size=10))}
        wrong += verdict("a above b", scores)["verdict"] != "not shown"
    assert 4 <= wrong <= 36  # 20 expected, 4 standard deviations


def test_power_says_what_so_many_seeds_can_see():
    assert (
        "20 seeds per arm and 1 comparison detect a difference of 0.9"
        in verdict("a above b", NEAR)["power"]
    )


def test_what_is_not_shown_says_how_many_seeds_would_show_a_tenth():
    """Of the mean of both sides, by Welch's test over the comparisons of the claim."""
    scores = {"a": draw(104, std=20, seed=1), "b": draw(100, std=40, seed=2)}
    found = judge(Claim("w", ("a above b", "b above a")), [ENV], "ab", looking(scores))
    a, b = scores["a"], scores["b"]
    size = (np.mean(a) + np.mean(b)) / 2
    spreads = np.std(a, ddof=1), np.std(b, ddof=1)
    needed = stats.seeds_to_show(0.1 * size, spreads, comparisons=2)
    assert [row["verdict"] for row in found["comparisons"]] == ["not shown"] * 2
    assert found["seeds_needed"] == needed
    assert f"{needed} seeds per arm detect one of 10 % of the return" in found["power"]
    assert verdict("a above b", FAR)["seeds_needed"] is None


def test_p_is_that_of_the_verdict():
    """Of the opposite where it is contradicted: a p of 1 beside that would mislead."""
    (row,) = verdict("b above a", FAR)["comparisons"]
    assert row["verdict"] == "contradicted"
    assert row["p"] == pytest.approx(welch_p(FAR["a"], FAR["b"]))
    assert row["p_holm"] == row["p"]
