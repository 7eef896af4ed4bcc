"""The study of rivals in their own setting, on a small block model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from studies.rivals.published import PUBLISHED, Published, control, draw, measure, row, table

from veilgraph.datasets import csbm

PRIVATE = csbm(200, num_classes=3, num_features=6, seed=0)


def test_labels_are_in_the_clear_and_features_are_private_at_user_level() -> None:
    perturbed, split = draw(PRIVATE, 0)
    assert (perturbed.labels[split.labelled] == PRIVATE.labels[split.labelled]).all()
    assert perturbed.guarantee.features_user_level == pytest.approx(1.0)
    assert math.isinf(perturbed.guarantee.label_user_level)


@pytest.mark.parametrize(
    "published", [each for each in PUBLISHED if each.dataset == "cora"], ids=lambda each: each.rival
)
def test_each_rival_is_measured_on_every_draw(published: Published) -> None:
    draws = {seed: draw(PRIVATE, seed) for seed in range(2)}
    found = measure(published, PRIVATE, draws, epochs=2)
    assert len(found) == 2
    assert all(0 <= each <= 100 for each in found)


def test_the_table_has_both_means_their_difference_and_the_control() -> None:
    without = control(PRIVATE, {0: draw(PRIVATE, 0)})
    assert len(without) == 1
    printed = table([row(PUBLISHED[0], [84.0, 86.0], [80.0, 82.0])])
    spread = np.std([84, 86], ddof=1)
    assert printed.splitlines()[-1] == f"| cora | UPGNet | 85.1 ± 1.0 | 85.0 ± {spread:.1f} | -0.1 | 81.0 ± 1.4 |"
