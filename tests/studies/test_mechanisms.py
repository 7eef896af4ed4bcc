"""The study of mechanisms: measured variances equal the stated ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from studies.mechanisms import COMPARED, ball_variance, estimates, stated_variance

from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import JointGRR
from veilgraph.privacy.schema import FeatureSchema

REPEATS, PEOPLE, FEATURES = 400, 600, 6
SCHEMA = FeatureSchema.binary(FEATURES, classes=["a", "b"])


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_measured_variance_is_the_stated_one(name: str, epsilon: float, share: float) -> None:
    mechanism = COMPARED[name](SCHEMA, PrivacyBudget(epsilon / FEATURES, 1.0, FEATURES))
    rng = np.random.default_rng(0)
    found = np.array([estimates(mechanism, share, PEOPLE, rng)[0] for _ in range(REPEATS)])
    stated = stated_variance(mechanism, share) / PEOPLE
    assert abs(found.mean() - share) < 5 * np.sqrt(stated / REPEATS)
    # Close to chi-square. How many of the 600 are asked is random: the mean of 1 / number exceeds 1 / mean by 1/100.
    ratio = (REPEATS - 1) * found.var(ddof=1) / stated
    assert chi2.ppf(1e-6, REPEATS - 1) < ratio < 1.01 * chi2.isf(1e-6, REPEATS - 1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_joint_grr_is_the_best_ball_up_to_an_epsilon_of_4(epsilon: float) -> None:
    variance, sampled, matches = ball_variance(58, 0.5, epsilon)
    assert sampled == matches == JointGRR.best((2,) * 58, epsilon).sampled
    assert stated_variance(JointGRR.best((2,) * 58, epsilon), 0.5) == pytest.approx(variance, rel=1e-9)
