"""With a critic A(s, mu(s)) < 0, DPG follows its slope and CAC stays  (Sec. 4.2).

One state, R(a) = -a^2 / 2, mu = 0.3. The critic's advantage e + g b + h b^2 / 2 has
the wrong slope and is below 0 for every action.
"""

import numpy as np

from penfac.theory.canvas import BLACK, BLUE, GREEN, GREY, RED, canvas, png
from penfac.theory.gaussian import linear_cac, quadratic_cac, true_offset
from penfac.theory.statement import CheckResult, Statement, below
from penfac.theory.training import normal_grid, training_step

MU, SIGMA, STEP = 0.3, 0.2, 0.5
E, G, H = -0.1, 0.2, -0.5  # largest value e - g^2 / (2 h) = -0.06


def performance(mu):
    """J = R(mu), for one mu or many."""
    return -(mu**2) / 2


def critic_advantage(b: np.ndarray) -> np.ndarray:
    """The critic's advantage of the action mu + b."""
    return E + G * b + H * b**2 / 2


def check_dpg_lowers() -> CheckResult:
    """J after DPG's step < J after CAC's, which does not move."""
    moved = SIGMA * normal_grid(100_000)
    trained = (
        float(training_step("cac", critic_advantage(moved[:, 0]), moved)[0]) / SIGMA**2
    )
    closed = quadratic_cac(E, G, H, SIGMA)
    slope = (
        critic_advantage(np.array(1e-6)) - critic_advantage(np.array(-1e-6))
    ) / 2e-6
    numbers = {
        "critic's A at mu(s)": critic_advantage(np.array(0.0)),
        "critic's largest A": E - G**2 / (2 * H),
        "DPG's step by the critic": slope,
        "DPG's step by the true slope": -MU,
        "CAC's step in closed form": closed,
        "CAC's step by training": trained + 0.0,  # not -0
        "share of the step CAC takes if A is linear": share(E),
        "the same share with offset 0": share(0.0),
        "true A^pi(s, mu(s)) where R'' = 1": true_offset(1.0, SIGMA),
    }
    after = performance(MU + STEP * float(slope))
    stays = closed == 0 and trained == 0
    return below(after, performance(MU + STEP * closed), numbers, also=stays)


def share(offset: float) -> float:
    """Phi(kappa): how much of DPG's step CAC takes if the critic is linear."""
    return float(linear_cac(offset, np.array([G]), SIGMA)[0] / G)


# --- figure and statements ---------------------------------------------------------------


def critic_figure() -> bytes:
    """What the critic says beside what is true."""
    figure, (a,) = canvas()
    b = np.linspace(-0.7, 0.7, 300)
    true = performance(MU + b) - performance(MU)
    a.plot(MU + b, true, color=BLACK, linewidth=2, label="true A^mu")
    a.plot(MU + b, critic_advantage(b), color=RED, linewidth=2, label="critic's A")
    a.axhline(0, color=GREY, linewidth=0.8)
    a.axvline(MU, color=GREY, linewidth=0.8, linestyle=":")
    step = MU + STEP * G
    tip = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 2.5}
    a.annotate("", (step, 0.08), (MU, 0.08), arrowprops=tip)
    a.text(step + 0.02, 0.08, "DPG", color=BLUE, va="center")
    a.text(MU - 0.02, 0.08, "CAC stays", color=GREEN, va="center", ha="right")
    a.set(
        title="A critic below 0 around mu(s)", xlabel="action", ylabel="advantage",
        ylim=(-0.5, 0.14),
    )  # fmt: skip
    return png(figure, [a])


STATEMENTS = (
    Statement(
        "negative-advantage", "Sec. 4.2", True,
        "with an estimated A(s, mu(s)) < 0 DPG moves and may lower J; CAC stays",
        ("J after DPG's step", "J after CAC's step"), "<",
        "The critic is below 0 around mu(s) and has the wrong slope. No action is better "
        "than expected, so CAC does not move; DPG follows the slope. The paper says that "
        "such a critic must be wrong. This is true of A^mu. The advantage of pi is "
        "-sigma^2 tr(H) / 2 at mu(s), which is truly negative where the reward is convex.",
        check_dpg_lowers, critic_figure,
    ),
)  # fmt: skip
