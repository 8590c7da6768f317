"""Scores of one learning curve against quadrature and hand-made sums."""

import numpy as np
import pytest
from scipy.integrate import quad

from penfac.scores import final_score, mean_return


@pytest.mark.parametrize("n", [1, 3, 9, 10, 11, 20, 21, 30, 100])
def test_the_final_score_is_the_mean_of_the_last_tenth(n):
    """Counted in whole numbers; at least one."""
    x = np.random.default_rng(n).normal(size=n)
    kept = -(-n // 10)
    assert final_score(x) == pytest.approx(np.mean(x[n - kept :]))


def test_the_mean_return_is_the_integral_to_the_cut():
    """Against quadrature; of a line, its value in the middle."""
    steps, returns = [0, 30, 70, 100, 400], [1.0, 5.0, -2.0, 4.0, 8.0]
    area, _ = quad(lambda s: np.interp(s, steps, returns), 0, 80, points=[30, 70])
    assert mean_return(steps, returns, share=0.2) == pytest.approx(area / 80)
    assert mean_return([100, 500], [0, 40], share=0.25) == pytest.approx(5)
    assert mean_return([100], [7]) == 7
    assert mean_return(steps, returns) == pytest.approx(
        np.trapezoid(returns, steps) / 400
    )
