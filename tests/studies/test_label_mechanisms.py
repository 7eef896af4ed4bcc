"""Tests of the comparison of label mechanisms at equal epsilon."""

from __future__ import annotations

import itertools
import math

import pytest
from studies.label_mechanisms import COMPARED, of_unary, rows


def information(likelihood: list[list[float]]) -> float:
    """Return the mutual information in bits of a uniform class and a report, from [classes, reports]."""
    k = len(likelihood)
    chances = [sum(column) / k for column in zip(*likelihood, strict=True)]
    return sum(p * math.log2(p / q) / k for row in likelihood for p, q in zip(row, chances, strict=True))


@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.5), (4, 1.0), (5, 3.0)])
def test_the_information_of_unary_reports_is_that_of_all_reports(k: int, epsilon: float) -> None:
    q = 1 / (math.exp(epsilon) + 1)
    likelihood = [
        [
            math.prod(0.5 if code == true else (q if bit else 1 - q) for code, bit in enumerate(bits))
            for bits in itertools.product((0, 1), repeat=k)
        ]
        for true in range(k)
    ]
    assert of_unary(k, epsilon)[0] == pytest.approx(information(likelihood))


def test_no_other_mechanism_beats_subset_selection_at_its_best_size() -> None:
    sets, others = list(COMPARED)[:2], list(COMPARED)[2:]
    for row in rows(range(2, 101, 7), (0.5, 1.0, 2.0, 4.0)):
        for name in others:
            assert row["information"][name] <= row["information"][sets[0]] * (1 + 1e-9)
            assert row["variance"][name] >= row["variance"][sets[1]] * (1 - 1e-9)
