"""Every statement that is checked, in the order of the paper."""

import time
from typing import Any

from penfac.theory import (
    centred,
    directions,
    gradients,
    lemma41,
    mdp,
    poor_critic,
    regulator,
    shared_parameter,
    theorem52,
    truncated,
)
from penfac.theory.finding import Finding, Statement

CLOSED, TRAINED = "the closed form", "minus the gradient of training's loss"

_GRADIENTS = (
    Statement(
        "cacla-linear", "Eq. 8", True,
        "CACLA follows the integral of Eq. 8: phi(kappa) g / |g| if A = c + g.b",
        (CLOSED, TRAINED), "=",
        "Eq. 8 reads CACLA's update as one sample of an integral over actions. For an "
        "advantage that is linear around mu(s) the integral is known: the direction of "
        "g with length phi(kappa), kappa = c / (sigma |g|), whatever |g| is. The "
        "gradient of penfac.core.actor.toward_loss over random actions in five "
        "dimensions agrees within four standard errors.",
        gradients.cacla_linear, "step_lengths",
    ),
    Statement(
        "cac-linear", "Sec. 4.2", True,
        "CAC follows its integral: Phi(kappa) g if A = c + g.b",
        (CLOSED, TRAINED), "=",
        "CAC weighs each better action by how much better it is. For a linear advantage "
        "and divided by sigma^2 that is Phi(kappa) g: DPG's step, times the share of "
        "actions that are better than expected.",
        gradients.cac_linear, "step_lengths",
    ),
    Statement(
        "cacla-quadratic", "Eq. 8", True,
        "... and for a quadratic advantage, in one dimension",
        (CLOSED, TRAINED), "=",
        "Where A = c + g b + h b^2 / 2 is positive is one interval or two; over them "
        "CACLA's step is a difference of Gaussian densities. The integral itself, by "
        "quadrature, and training's loss over evenly spread actions say the same.",
        gradients.cacla_quadratic, "step_lengths",
    ),
    Statement(
        "cac-quadratic", "Sec. 4.2", True,
        "... and CAC's for a quadratic advantage, in one dimension",
        (CLOSED, TRAINED), "=",
        "As for CACLA, with the second and third moments of a Gaussian between the "
        "roots of A.",
        gradients.cac_quadratic, "step_lengths",
    ),
    Statement(
        "stein", "Sec. 4.2", False,
        "CAC is SPG on the better actions: E[A+ b] / sigma^2 = E[1{A > 0} grad A]",
        (TRAINED, "the mean slope of A where A > 0"), "=",
        "Stein's identity, for every sigma and any advantage with a weak derivative, "
        "here a random tanh network of three actions. It explains the rest: CAC follows "
        "the slope of A, averaged over the better actions only.",
        gradients.stein, "step_lengths",
    ),
)  # fmt: skip

_WORDS = (
    Statement(
        "same-direction", "Sec. 4.1", True,
        "in one state CACLA and SPG point the same way, if A is linear",
        ("cosine of the two steps of training", "1"), "=",
        "SPG follows g, CACLA phi(kappa) g / |g|: parallel, and CACLA's length does not "
        "know how steep A is.",
        directions.linear, "bent_advantage",
    ),
    Statement(
        "same-direction-always", "Sec. 4.1", True,
        "... for any A, as Sec. 4.1 says in brackets",
        ("cosine of the two integrals", "1"), "=",
        "It needs a linear advantage. With A = z^3 - 2 z, z = b / sigma, the near "
        "actions say left and the far ones right: SPG steps by +1 and CACLA by "
        "(2/e - 1) / sqrt(2 pi) = -0.105. Beside a second, linear action the two steps "
        "are not even parallel. CAC keeps half of SPG's step: it does so for every odd "
        "advantage and every sigma.",
        directions.always, "bent_advantage",
    ),
    Statement(
        "optimum-cacla", "Sec. 4.1", True,
        "an optimum of DPG over several states is none of CACLA's, which lowers J",
        ("J where CACLA rests", "J at DPG's optimum"), "<",
        "Three states share one parameter. Where the sum of DPG's steps is 0 the sum of "
        "CACLA's is not: each state pulls with nearly the same force, however much it "
        "minds. One step from there lowers J, and CACLA comes to rest elsewhere.",
        shared_parameter.cacla_lowers, "shared_parameter",
    ),
    Statement(
        "optimum-cac", "Sec. 4.2", True,
        "... nor of CAC's at a finite sigma",
        ("J where CAC rests", "J at DPG's optimum"), "<",
        "The same three states at sigma = 0.4. CAC rests near DPG's optimum, not at it: "
        "in a state whose best action is near, bending takes more of the step.",
        shared_parameter.cac_lowers, "shared_parameter",
    ),
    Statement(
        "optimum-cac-limit", "Sec. 4.2", False,
        "as sigma goes to 0 DPG's optimum is CAC's too",
        ("CAC's update there at sigma 1e-4", "0"), "=",
        "Sec. 4.2 says that CAC weighs states otherwise than DPG. At a finite sigma it "
        "does, in proportion to sigma; in the limit the weight is 1/2 in every state, "
        "and what is 0 for DPG is 0 for CAC.",
        shared_parameter.cac_in_the_limit, "shared_parameter",
    ),
    Statement(
        "negative-advantage", "Sec. 4.2", True,
        "with an estimated A(s, mu(s)) < 0 DPG moves and may lower J; CAC stays",
        ("J after DPG's step", "J after CAC's step"), "<",
        "A critic that is below 0 around mu(s) and slopes the wrong way. No action is "
        "better than expected, so CAC does nothing; DPG follows the slope. That the "
        "critic must then be wrong holds for A^mu: the advantage of pi is -sigma^2 "
        "tr(H) / 2 at mu(s), truly negative where rewards bend up.",
        poor_critic.dpg_lowers, "poor_critic",
    ),
    Statement(
        "eq-4", "Eq. 4", True,
        "J(pi~) = J(pi) + sum d^pi~ sum pi~ A^pi",
        ("J(pi~) by a linear solve", "the right side, summed over time"), "=",
        "The worst of 200 random finite MDPs.",
        mdp.eq_4, "surrogate_error",
    ),
    Statement(
        "eq-4-surrogate", "Eq. 4", True,
        "with d^pi in place of d^pi~ the error is of second order",
        ("order of the error", "2"), "=",
        "A policy t of the way from pi to pi~: the error of the approximation falls "
        "with t^2, so that both sides have the same gradient at pi.",
        mdp.eq_4_surrogate, "surrogate_error",
    ),
)  # fmt: skip

_LEMMA = (
    Statement(
        "lemma-4-1", "Lemma 4.1", True,
        "as sigma goes to 0 CAC / sigma^2 is DPG times a factor: exactly 1/2",
        ("the factor on the regulator, sigma 1e-4", "1/2"), "=",
        "Printed without the 1/sigma^2 the left side tends to 0, and with mu - a its "
        "sign is that of a descent. With both put right the factor that the lemma "
        "places in [0, 1] is 1/2 for every state and parameter: half of all actions "
        "are better than expected. Checked on the double integrator, whose advantage "
        "is known at every sigma.",
        lemma41.limit, "factor",
    ),
    Statement(
        "lemma-4-1-overall", "Lemma 4.1", False,
        "over all states: the whole update tends to 1/2 grad J(mu)",
        ("CAC's update over all states, sigma 1e-3", "1/2 dJ, by differences"), "=",
        "Five states whose transitions depend on the action, one shared parameter; "
        "visits, values and advantages are those of pi at each sigma.",
        lemma41.overall, "factor",
    ),
    Statement(
        "lemma-4-1-rate", "Lemma 4.1", False,
        "the factor is 1/2 + sigma h / (2 |g| sqrt(2 pi)) + ...",
        ("slope of the factor at 0", "1 / (2 sqrt(2 pi))"), "=",
        "In m dimensions the first-order term of CAC / sigma^2 is sigma phi(0) "
        "(H e - (e'He) e / 2), e = g / |g|: it turns the step where H does not keep e.",
        lemma41.rate, "factor",
    ),
    Statement(
        "lemma-4-1-biased", "Lemma 4.1", False,
        "with a critic that is off by e the factor is Phi(e / (sigma |g|))",
        ("training's step over DPG's", "Phi(kappa)"), "=",
        "Any factor between 0 and 1 can occur: if the offset does not vanish with "
        "sigma the factor tends to 1 or to 0. This is the interval of the lemma, and "
        "how CAC leaves alone the states that a critic underrates.",
        lemma41.biased, "factor",
    ),
    Statement(
        "lemma-4-1-finite", "Lemma 4.1", False,
        "CAC keeps the sign of each component at sigma = 0.2 too",
        ("component 2 of CAC", "component 2 of DPG"), "same sign",
        "It does not: the lemma is about the limit. With g = (1, 0.05) and a concave "
        "quadratic of Hessian -(2 1; 1 2) the second component has changed its sign "
        "at sigma = 0.1 already. CAC still climbs: its step makes an acute angle "
        "with g.",
        lemma41.finite_sigma, "factor",
    ),
    Statement(
        "lemma-4-1-kink", "Lemma 4.1", False,
        "CAC keeps the sign where A has a kink",
        ("component 2 of CAC", "component 2 of SPG"), "same sign",
        "It need not, and no sigma is small enough: at a kink A(s, mu(s)) is as large "
        "as the spread of A. The lemma needs an advantage that is differentiable at "
        "mu(s). In one dimension the factor is no longer 1/2, though still in [0, 1].",
        lemma41.kinked, "factor",
    ),
)  # fmt: skip

_TRUST = (
    Statement(
        "lemma-5-1", "Lemma 5.1", True,
        "J(mu~) = J(mu) + sum d^pi sum pi A^mu + sum d^mu~ A^pi(s, mu~(s))",
        ("J(mu~) by a linear solve", "the right side, summed over time"), "=",
        "Exact for every pi; it is Eq. 4 twice. The worst of 200 random finite MDPs.",
        mdp.lemma_5_1, "surrogate_error",
    ),
    Statement(
        "lemma-5-1-lqr", "Lemma 5.1", True,
        "... and with a Gaussian pi, on the regulator",
        ("J(mu~), played", "the right side in closed form"), "=",
        "The double integrator, two linear policies, sigma = 0.2.",
        regulator.lemma_5_1, "surrogate_error",
    ),
    Statement(
        "theorem-5-2", "Theorem 5.2", True,
        "the printed bound, on a world made to break it, gamma = 0.99",
        ("what is bounded", "the printed bound"), "<=",
        "It fails for every gamma above 1/2: the quantity grows with gamma / "
        "(1 - gamma)^2 and the bound with 1 / (1 - gamma). The proof takes the "
        "difference of two products for the product of the differences, which leaves "
        "out that policies drift apart for many steps.",
        theorem52.printed, "trust_region",
    ),
    Statement(
        "theorem-5-2-half", "Theorem 5.2", False,
        "for gamma up to 1/2 the printed bound is true",
        ("largest share of it", "1"), "<=",
        "There gamma / (1 - gamma) is at most 1, and the corrected bound is below the "
        "printed one. On thousands of random MDPs, and on the counter-example at 1/2.",
        theorem52.small_gamma, "trust_region",
    ),
    Statement(
        "theorem-5-2-normalised", "Theorem 5.2", False,
        "with d scaled to sum to 1 the printed bound is true",
        ("largest share of it", "1"), "<=",
        "The theorem writes d without the gamma that the paper's definition carries. "
        "Read as (1 - gamma) d_gamma the bound follows from the corrected one. But "
        "Lemma 5.1, which it is to serve, and the proof itself need the sum of "
        "gamma^t, which is 1 / (1 - gamma).",
        theorem52.normalised, "trust_region",
    ),
    Statement(
        "theorem-5-2-corrected", "Theorem 5.2", False,
        "epsilon L I(S) gamma / (1 - gamma)^2 (|mu~ - mu| + E|b|) is a bound",
        ("largest share on random MDPs", "1"), "<=",
        "Proved by d~ - d = gamma d (P~ - P)(I - gamma P~)^-1; here on ten thousand "
        "random MDPs with continuous actions, of which some exceed the printed bound.",
        theorem52.corrected, "trust_region",
    ),
    Statement(
        "theorem-5-2-attained", "Theorem 5.2", False,
        "... and can hardly be improved: a world reaches 0.85 of it",
        ("0.85", "share that the counter-example reaches, gamma 0.99"), "<=",
        "As delta and sigma / delta go to 0 the share goes to 1: the constant is sharp.",
        theorem52.attained, "trust_region",
    ),
    Statement(
        "truncated-cac", "Eq. 5, D7", False,
        "cut off at a bound, CAC rests 0.303 sigma inside it",
        ("mu by the closed form", "mu where training's loss rests"), "=",
        "Reward a on [-1, 1], sigma = 0.2: the best action is 1. Noise that is cut off "
        "at the bound lies to one side, its mean is below mu, and actions between that "
        "mean and mu count as better and pull back. Less sigma brings mu nearer; so "
        "does clipping in place of truncation.",
        truncated.cac, "resting_place",
    ),
    Statement(
        "truncated-cacla", "Eq. 5, D7", False,
        "... and CACLA 0.506 sigma",
        ("mu by the closed form", "mu where training's loss rests"), "=",
        "CACLA counts the actions that pull back as much as those at the bound, and "
        "so rests further inside: at beta = phi(beta) / Phi(beta) standard deviations.",
        truncated.cacla, "resting_place",
    ),
)  # fmt: skip

_CENTRED = (
    Statement(
        "centred-step", "D23", False,
        "a control variate leaves the step at mu_old as it is, for every rule and "
        "symmetric law",
        ("E[w b], no control variate", "training's loss with it"), "=",
        "Centred, an action pulls with w - c in place of w, c the mean weight. E[b] = 0, "
        "so E[(w - c) b] = E[w b]. CACLA, CAC and SPG under normal, uniform and Laplace "
        "noise; the left side by quadrature.",
        centred.unchanged, "centred_pull",
    ),
    Statement(
        "centred-variance", "D23", False,
        "... and takes away more than half of its variance, for CACLA with six actions",
        ("share left, by the closed form", "share left in a random sample"), "=",
        "With w = H(A) the centred weight is the sign of the advantage, centred: actions "
        "that were worse push as those that were better pull. E|w b|^2 falls from about "
        "m / 2 to m / 4; what remains is the variance of b itself.",
        centred.lower_variance, "centred_pull",
    ),
    Statement(
        "centred-truncated", "D23, D7", False,
        "noise cut off at a bound is not symmetric: the control variate adds -E[w] E[b]",
        ("-E[w] E[b]", "centred step - plain step"), "=",
        "R(a) = a, mu one sigma from the bound. What is added points to the bound, and "
        "CACLA no longer rests inside it: the centred step is the covariance of w and b, "
        "which is positive for every mu.",
        centred.truncation, "centred_pull",
    ),
)  # fmt: skip

STATEMENTS = {s.name: s for s in (*_GRADIENTS, *_WORDS, *_LEMMA, *_TRUST, *_CENTRED)}


def checked(statement: Statement) -> tuple[Finding, float]:
    """What its check found, and in how many seconds."""
    began = time.perf_counter()
    found = statement.check()
    return found, time.perf_counter() - began


def as_document(statement: Statement, found: Finding, seconds: float) -> dict[str, Any]:
    """One statement as JSON can hold it."""
    return {
        "name": statement.name,
        "where": statement.where,
        "printed": statement.printed,
        "says": statement.says,
        "relation": statement.relation,
        "left": found.left,
        "left_is": statement.sides[0],
        "right": found.right,
        "right_is": statement.sides[1],
        "gap": found.gap,
        "holds": found.holds,
        "seconds": round(seconds, 3),
        "numbers": dict(found.numbers),
        "about": statement.about,
    }


def picture(statement: Statement) -> bytes:
    """Its figure, as PNG."""
    from penfac.theory import figures

    return figures.DRAWINGS[statement.picture]()
