"""Rows of results side by side: found by setting, paired seed by seed, named for people."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from veilgraph.experiments.methods import METHODS
from veilgraph.experiments.report.comparison import CONTROL, PairedDifference
from veilgraph.experiments.results import Row

Found = Mapping[str, Sequence[Row]]
"""Rows by experiment."""
Pair = tuple[Row, Row]

_DATASET_NAMES = {
    "citeseer": "Citeseer",
    "cora": "Cora",
    "dblp": "DBLP",
    "facebook": "Facebook",
    "german": "German",
    "student": "Student",
    "pubmed": "Pubmed",
    "twitch_engb": "Twitch",
}
_SHORT_NAMES = {
    "graphsage": "GraphSAGE",
    "gcn": "GCN",
    "gat": "GAT",
    "lpgnn": "LPGNN",
    "lpgnn_equal": "LPGNN, best m",
    "veil_equal": "Veil, joint GRR",
    "veil_labels": "Veil, label alone",
    CONTROL: "Control",
    "majority": "Majority",
    "non_private": "Non-private",
}


def dataset_name(key: str) -> str:
    """As the paper writes it; an unknown one keeps its key."""
    return _DATASET_NAMES.get(key, key)


def method_title(key: str) -> str:
    """For people; an unknown method keeps its key."""
    return METHODS[key].title if key in METHODS else key


def short_title(key: str) -> str:
    """For the head of a column or a legend."""
    return _SHORT_NAMES.get(key, method_title(key))


def budget_words(row: Row) -> str:
    """The budgets that were asked for, in a few words.

    >>> from types import SimpleNamespace
    >>> budget_words(SimpleNamespace(epsilon_x=0.1, epsilon_y=3.0))
    'ε_x = 0.1, ε_y = 3'
    >>> budget_words(SimpleNamespace(epsilon_x=None, epsilon_y=None))
    'not private'
    """
    named = (("ε_x", row.epsilon_x), ("ε_y", row.epsilon_y))
    return ", ".join(f"{name} = {value:g}" for name, value in named if value is not None) or "not private"


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose attributes, or swept parameters, are as wanted."""
    return [
        row
        for row in rows
        if all(
            (getattr(row, key) if hasattr(row, key) else row.swept.get(key)) == value for key, value in wanted.items()
        )
    ]


def find(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """The first such row, or None."""
    return next(iter(select(rows, **wanted)), None)


def control_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The control on the same data and labels; of a row that is not private, the one with the largest label budget."""
    controls = [each for each in select(rows, dataset=row.dataset, method=CONTROL) if each.epsilon_y is not None]
    if row.epsilon_y is None:
        return max(controls, key=lambda each: each.epsilon_y or 0.0, default=None)
    return find(controls, epsilon_y=row.epsilon_y)


def paired(row: Row, other: Row) -> PairedDifference | None:
    """Accuracy of one minus the other's on the seeds that both have; None where they share none."""
    return pooled([(row, other)])


def pooled(pairs: Sequence[Pair]) -> PairedDifference | None:
    """The mean difference over several settings, seed by seed, on the seeds that all of them have."""
    shared = set.intersection(*(set(a.accuracies) & set(b.accuracies) for a, b in pairs)) if pairs else set()
    if not shared:
        return None
    differences = [
        statistics.mean(a.accuracies[seed] - b.accuracies[seed] for a, b in pairs) for seed in sorted(shared)
    ]
    return PairedDifference.of(differences, [0.0] * len(differences))
