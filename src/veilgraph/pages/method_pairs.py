"""Any two methods in the same setting, compared seed by seed: difference, interval and corrected p."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import short_title
from veilgraph.pages.paired_differences import PairedDifference, datasets_of, paired, select
from veilgraph.pages.result_tables import Table, dataset_name, setting_text, varied_parameters
from veilgraph.privacy.epsilon import short_epsilon
from veilgraph.privacy.estimate import signed_points

_NOTE = (
    "Difference in percentage points, first minus second, paired by seed: both saw the same split and, at one budget, "
    "the same reports. Interval: 95 %, Student's t. p is two-sided; Holm's correction is over all pairs of this table. "
    "With n seeds, Wilcoxon's p is at least 2 / 2^n: below 6 seeds it cannot be below 0.05."
)


@dataclass(frozen=True, kw_only=True)
class MethodPair:
    """Two methods in one setting.

    Attributes:
        first: row of the first method.
        second: row of the second method.
        setting: budgets and varied parameters of both; those that one of them does not use are the other's.
        difference: first minus second.
        p_t: p of Student's paired t-test.
        p_wilcoxon: p of Wilcoxon's signed-rank test.
        holm_t: `p_t`, corrected for all pairs.
        holm_wilcoxon: `p_wilcoxon`, corrected for all pairs.
    """

    first: Row
    second: Row
    setting: Mapping[str, Any]
    difference: PairedDifference
    p_t: float
    p_wilcoxon: float
    holm_t: float = 1.0
    holm_wilcoxon: float = 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean difference."""
        width = float(stdtrit(self.difference.seeds - 1, 0.975)) * (self.difference.standard_error or 0.0)
        return self.difference.mean - width, self.difference.mean + width

    def as_dict(self) -> dict[str, Any]:
        """Return the pair as a line of a CSV file; differences are shares of 1."""
        low, high = self.interval
        return {
            "dataset": self.first.dataset,
            "first": self.first.method,
            "first_variant": self.first.variant,
            "second": self.second.method,
            "second_variant": self.second.variant,
            **self.setting,
            "first_epsilon_user_level": self.first.epsilon_user_level,
            "second_epsilon_user_level": self.second.epsilon_user_level,
            "seeds": self.difference.seeds,
            "difference": self.difference.mean,
            "low_95": low,
            "high_95": high,
            "p_t": self.p_t,
            "p_wilcoxon": self.p_wilcoxon,
            "holm_t": self.holm_t,
            "holm_wilcoxon": self.holm_wilcoxon,
        }


def method_pairs(rows: Sequence[Row]) -> list[MethodPair]:
    """Compare any two methods that share a setting and at least two seeds; correct p for all of these pairs.

    A setting is a data set, budgets, a label mechanism, and the parameters that the experiment varies. What a method
    does not use fits every value. A method that is not private is compared with others of its kind alone.
    """
    varied = varied_parameters(rows)
    pairs = [
        pair
        for dataset in datasets_of(rows)
        for first, second in itertools.combinations(select(rows, dataset=dataset), 2)
        if _name(first) != _name(second) and (setting := _shared_setting(first, second, varied)) is not None
        if (pair := _compared(first, second, setting)) is not None
    ]
    corrected = zip(holm([each.p_t for each in pairs]), holm([each.p_wilcoxon for each in pairs]), strict=True)
    return [replace(pair, holm_t=t, holm_wilcoxon=w) for pair, (t, w) in zip(pairs, corrected, strict=True)]


def _name(row: Row) -> str:
    return f"{short_title(row.method)} {row.variant}".strip()


def _shared_setting(first: Row, second: Row, varied: Sequence[str]) -> dict[str, Any] | None:
    private = first.epsilon_y is not None
    if private != (second.epsilon_y is not None) or (private and first.label_mechanism != second.label_mechanism):
        return None
    one, other = ({"epsilon_x": each.epsilon_x, "epsilon_y": each.epsilon_y, **each.swept} for each in (first, second))
    keys = ("epsilon_x", "epsilon_y", *varied)
    if any(one.get(key) != other.get(key) and None not in (one.get(key), other.get(key)) for key in keys):
        return None
    return {key: other.get(key) if one.get(key) is None else one.get(key) for key in keys}


def _compared(first: Row, second: Row, setting: Mapping[str, Any]) -> MethodPair | None:
    difference = paired(first, second)
    if difference is None or difference.standard_error is None:
        return None
    seeds = sorted(first.accuracies.keys() & second.accuracies.keys())
    differences = [first.accuracies[seed] - second.accuracies[seed] for seed in seeds]
    return MethodPair(
        first=first,
        second=second,
        setting=setting,
        difference=difference,
        p_t=_p_t(difference),
        p_wilcoxon=p_wilcoxon(differences),
    )


def _p_t(difference: PairedDifference) -> float:
    if not difference.standard_error:  # all differences are equal
        return 1.0 if abs(difference.mean) < 1e-9 else 0.0
    return 2 * float(stdtr(difference.seeds - 1, -abs(difference.mean) / difference.standard_error))


def p_wilcoxon(differences: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; equal accuracies are left out.

    >>> p_wilcoxon([0.01, 0.02, 0.03, 0.04, 0.05, 0.06]) == 2 / 2**6
    True
    """
    from scipy.stats import wilcoxon  # slow to import

    unequal = np.round(np.asarray(differences), 9)  # a smaller difference of accuracies is rounding
    unequal = unequal[unequal != 0]
    return float(wilcoxon(unequal).pvalue) if len(unequal) else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected by Holm's method (1979), which bounds the chance of any false discovery.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def pair_table(title: str, pairs: Sequence[MethodPair]) -> Table:
    """Return the pairs as a table for people."""
    return Table(
        title=f"{title}: methods in pairs",
        columns=(
            "Data set",
            "Setting",
            "First",
            "Second",
            "User-level ε",
            "Difference",
            "95 % interval",
            "p (t)",
            "p (Wilcoxon)",
            "Holm (t)",
            "Holm (Wilcoxon)",
        ),
        text_columns=4,
        rows=tuple(map(_text_row, pairs)),
        note=_NOTE,
    )


def _text_row(pair: MethodPair) -> tuple[str, ...]:
    epsilons = dict.fromkeys(short_epsilon(row.epsilon_user_level) for row in (pair.first, pair.second))
    low, high = pair.interval
    return (
        dataset_name(pair.first.dataset),
        setting_text(pair.setting),
        _name(pair.first),
        _name(pair.second),
        " / ".join(epsilons),
        signed_points(pair.difference.mean),
        f"{signed_points(low)} to {signed_points(high)}",
        *(_p_text(p) for p in (pair.p_t, pair.p_wilcoxon, pair.holm_t, pair.holm_wilcoxon)),
    )


def _p_text(p: float) -> str:
    return "below 0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"
