"""Label mechanisms at equal epsilon (user level, any two records): information of a report, and variance of a share.

`python -m studies.label_mechanisms [--classes 2 3 4 ...] [--epsilons 0.5 1 ...] [--json]`. All figures are computed
from formulas, with uniform classes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.frequency import population_variance
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.base import LabelMechanism
from veilgraph.privacy.mechanisms.subset_selection import best_size

CLASSES = (2, 3, 4, 6, 8, 10, 12, 16, 18, 24, 32, 48, 64, 100)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)

Figures = tuple[float, float]
"""Mutual information of class and report, in bits, and the variance of a class's share from one report."""


def of_sets(mechanism: LabelMechanism) -> Figures:
    """Return the figures of a mechanism that names a set of w classes; GRR names one.

    >>> [round(figure, 4) for figure in of_sets(SubsetSelection(2, 1.0))]
    [0.1601, 1.1707]
    """
    k, w, keep = mechanism.domain_size, mechanism.set_size, float(mechanism.channel.keep)
    information = keep * math.log2(k * keep / w) + (1 - keep) * math.log2(k * (1 - keep) / (k - w))
    return information, float(population_variance(np.float64(1 / k), mechanism.channel, 1.0))


def of_unary(k: int, epsilon: float) -> Figures:
    """Return the figures of optimized unary encoding (Wang et al. 2017).

    A report has a bit for each class: that of the true class is 1 with probability 1/2, each other one with
    q = 1 / (e^epsilon + 1). The number of ones and whether the true class is among them say all about the class.
    """
    q = 1 / (math.exp(epsilon) + 1)
    others = np.array([math.comb(k - 1, ones) * q**ones * (1 - q) ** (k - 1 - ones) for ones in range(k)])
    information = 0.0
    for ones in range(k + 1):
        weight = ones * math.exp(epsilon) + k - ones
        if ones > 0:
            information += 0.5 * others[ones - 1] * math.log2(k * math.exp(epsilon) / weight)
        if ones < k:
            information += 0.5 * others[ones] * math.log2(k / weight)
    seen = 0.5 / k + q * (1 - 1 / k)
    return information, seen * (1 - seen) / (0.5 - q) ** 2


def of_hadamard(k: int, epsilon: float) -> Figures:
    """Return the figures of the Hadamard response (Acharya, Sun and Zhang 2019).

    A report is one of K > k codes, K a power of two. The codes with +1 in the row of the true class have a probability
    that is e^epsilon times that of the others.
    """
    rows = _hadamard(2 ** (k.bit_length()))[1 : k + 1] > 0
    likelihood = np.where(rows, math.exp(epsilon), 1.0)
    likelihood /= likelihood.sum(axis=1, keepdims=True)
    information = float((likelihood * np.log2(likelihood / likelihood.mean(axis=0))).sum() / k)
    gain = math.tanh(epsilon / 2) / 2
    seen = 0.5 + gain / k
    return information, seen * (1 - seen) / gain**2


def _hadamard(size: int) -> NDArray[np.int64]:
    matrix = np.ones((1, 1), dtype=np.int64)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


COMPARED: dict[str, Callable[[int, float], Figures]] = {
    "subset selection": lambda k, epsilon: of_sets(SubsetSelection(k, epsilon)),
    "subset selection, least variance": lambda k, epsilon: min(
        (of_sets(SubsetSelection(k, epsilon, size)) for size in range(1, k)), key=lambda figures: figures[1]
    ),
    "GRR": lambda k, epsilon: of_sets(GRR(k, epsilon)),
    "unary": of_unary,
    "Hadamard": of_hadamard,
}


def rows(classes: Sequence[int] = CLASSES, epsilons: Sequence[float] = EPSILONS) -> Iterator[dict[str, Any]]:
    """Yield one row for each number of classes and epsilon: a set's size, and the figures of each mechanism."""
    for k in classes:
        for epsilon in epsilons:
            figures = {name: measure(k, epsilon) for name, measure in COMPARED.items()}
            yield {
                "classes": k,
                "epsilon": epsilon,
                "size": best_size(k, epsilon),
                "information": {name: information for name, (information, _) in figures.items()},
                "variance": {name: variance for name, (_, variance) in figures.items()},
            }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    table = list(rows(options.classes, options.epsilons))
    if options.json:
        print(json.dumps(table, indent=2))
        return
    print(f"| classes | epsilon | set | {' | '.join(f'{name}: bits, variance' for name in COMPARED)} |")
    print("|---:" * (3 + len(COMPARED)) + "|")
    for row in table:
        cells = [f"{row['information'][name]:.4f}, {row['variance'][name]:.3g}" for name in COMPARED]
        print(f"| {row['classes']} | {row['epsilon']:g} | {row['size']} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
