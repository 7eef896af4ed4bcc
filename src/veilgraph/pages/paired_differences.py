"""What a run says about its methods: figures in words, differences on the same draws, and the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from veilgraph.experiments.results import Row
from veilgraph.models.registry import METHODS
from veilgraph.privacy.budget import show_epsilon

CONTROL = "structure_only"

_NAMES_AND_USES = {
    "rgnn": ("RGNN", "randomized features and labels, reconstructed over the graph"),
    "plain": ("Plain GNN on reports", "randomized features and labels, as they were reported"),
    CONTROL: ("Control: structure only", "randomized labels and the graph; no features"),
    "non_private": ("Non-private GNN", "true features and labels: a ceiling, not a private method"),
}


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """Accuracy minus the control's, seed by seed: both saw the same split and reports.

    Attributes:
        mean: over seeds.
        standard_error: of the mean; None for one seed.
        seeds: how many.
    """

    mean: float
    standard_error: float | None
    seeds: int

    @classmethod
    def of(cls, accuracies: Sequence[float], control: Sequence[float]) -> PairedDifference:
        """Pair the accuracies of two methods by seed.

        >>> PairedDifference.of([0.75, 0.5], [0.5, 0.5])
        PairedDifference(mean=0.125, standard_error=0.125, seeds=2)
        """
        differences = [a - b for a, b in zip(accuracies, control, strict=True)]
        n = len(differences)
        error = statistics.stdev(differences) / math.sqrt(n) if n > 1 else None
        return cls(mean=statistics.mean(differences), standard_error=error, seeds=n)

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of Student's t leaves zero out.

        >>> PairedDifference(mean=0.10, standard_error=0.01, seeds=5).clear
        True
        >>> PairedDifference(mean=0.02, standard_error=0.01, seeds=5).clear
        False
        """
        return self.clear_among(1)

    def clear_among(self, comparisons: int) -> bool:
        """Whether it is still clear when the best of so many comparisons may not mislead (Bonferroni).

        >>> PairedDifference(mean=0.04, standard_error=0.01, seeds=5).clear_among(1)
        True
        >>> PairedDifference(mean=0.04, standard_error=0.01, seeds=5).clear_among(48)
        False
        """
        if self.standard_error is None:
            return False
        quantile = float(stdtrit(self.seeds - 1, 1 - 0.025 / comparisons))
        # Accuracies are shares of a few thousand nodes at most: what is below a billionth is rounding.
        return abs(self.mean) > quantile * self.standard_error + 1e-9

    def __str__(self) -> str:
        mean = signed_points(self.mean)
        return mean if self.standard_error is None else f"{mean} ± {100 * self.standard_error:.1f}"


@dataclass(frozen=True, kw_only=True)
class PublishedDifference:
    """A measured mean minus a published one; the draws behind the published one are not known, so nothing is paired.

    Attributes:
        mean: the difference.
        standard_error: of the difference; None where a spread is not known.
    """

    mean: float
    standard_error: float | None

    @property
    def clear(self) -> bool:
        """Whether it is more than two standard errors.

        >>> PublishedDifference(mean=0.05, standard_error=0.02).clear
        True
        >>> PublishedDifference(mean=-0.03, standard_error=0.02).clear
        False
        """
        return self.standard_error is not None and abs(self.mean) > 2 * self.standard_error

    def __str__(self) -> str:
        mean = signed_points(self.mean)
        return mean if self.standard_error is None else f"{mean} ± {100 * self.standard_error:.1f}"


Difference = PairedDifference | PublishedDifference


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """One method, ready to print.

    Attributes:
        name: for people.
        uses: what it sees.
        epsilon: at user level, as four decimals or "not private".
        accuracy: mean and standard deviation.
        difference: to the control; empty for the control itself.
        seconds: per fit.
    """

    name: str
    uses: str
    epsilon: str
    accuracy: str
    difference: str
    seconds: str


def method_rows(result: dict[str, Any]) -> list[MethodRow]:
    """The methods in the order of the result."""
    control = result["methods"][CONTROL]["accuracies"]
    return [
        MethodRow(
            name=method_name(key),
            uses=_NAMES_AND_USES.get(key, ("", ""))[1],
            epsilon=epsilon_text(method["epsilon_user_level"]),
            accuracy=accuracy_text(method),
            difference="" if key == CONTROL else str(PairedDifference.of(method["accuracies"], control)),
            seconds=_seconds_text(method["seconds_mean"]),
        )
        for key, method in result["methods"].items()
    ]


def method_name(key: str) -> str:
    """The name for people; an unknown method keeps its key."""
    return _NAMES_AND_USES.get(key, (key, ""))[0]


def epsilon_text(epsilon: float | str) -> str:
    """As the budget shows it; what JSON holds for infinity is already text."""
    return epsilon if isinstance(epsilon, str) else show_epsilon(epsilon)


def short_epsilon(epsilon: float | str) -> str:
    """Without trailing zeros, for running text; still rounded up.

    >>> short_epsilon(10.999999999999996), short_epsilon(0.28111), short_epsilon("not private")
    ('11.0', '0.2812', 'not private')
    """
    text = epsilon_text(epsilon)
    if "." not in text:
        return text
    whole, decimals = text.split(".")
    return f"{whole}.{decimals.rstrip('0') or '0'}"


def percent(share: float) -> str:
    """One decimal, kept on one line.

    >>> percent(0.87361) == "87.4\N{NO-BREAK SPACE}%"
    True
    """
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def signed_points(difference: float) -> str:
    """Percentage points with a real sign; what rounds to zero has none.

    >>> signed_points(0.012), signed_points(-0.012), signed_points(-0.0001)
    ('+1.2', '−1.2', '0.0')
    """
    text = f"{100 * difference:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def accuracy_text(method: dict[str, Any]) -> str:
    """Mean and standard deviation, or the mean and "one seed", kept on one line."""
    deviation = method["accuracy_std"]
    spread = "(one seed)" if deviation is None else f"± {100 * deviation:.1f}"
    return f"{percent(method['accuracy_mean'])} {spread}".replace(" ", "\N{NO-BREAK SPACE}")


def headline(result: dict[str, Any]) -> str:
    """The verdict: is RGNN better than what needs no features at all?"""
    methods = result["methods"]
    difference = PairedDifference.of(methods["rgnn"]["accuracies"], methods[CONTROL]["accuracies"])
    sentence = _compared_with_control(difference)
    majority = result["graph"]["majority_share"]
    if methods["rgnn"]["accuracy_mean"] <= majority:
        sentence += f" RGNN is not above always answering with the largest class ({percent(majority)})."
    return sentence


def _compared_with_control(difference: PairedDifference) -> str:
    points = f"{abs(100 * difference.mean):.1f} points"
    ahead = difference.mean > 0
    if difference.standard_error is None:
        place = f"{points} above" if ahead else "not above"
        return f"On this one seed RGNN is {place} the control that uses no features; one seed cannot tell more."
    if difference.clear:
        control = "control that uses no features"
        return f"RGNN beats the {control} by {points}." if ahead else f"The {control} beats RGNN by {points}."
    if ahead:
        return f"RGNN is {points} above the control that uses no features, within the spread between seeds."
    return f"The control that uses no features is at or above RGNN: by {points}, within the spread between seeds."


def figures_in_words(result: dict[str, Any]) -> str:
    """What each method reached, and at which epsilon."""
    methods = result["methods"]
    rgnn, control, ceiling = methods["rgnn"], methods[CONTROL], methods["non_private"]
    return (
        f"RGNN reaches {accuracy_text(rgnn)} {_at(rgnn)}; "
        f"label propagation without any features reaches {accuracy_text(control)} {_at(control)}; "
        f"without privacy the same GNN reaches {accuracy_text(ceiling)}. "
        f"Always answering with the largest class gives {percent(result['graph']['majority_share'])}."
    )


def _at(method: dict[str, Any]) -> str:
    epsilon = method["epsilon_user_level"]
    return "without privacy" if isinstance(epsilon, str) else f"at a user-level epsilon of {short_epsilon(epsilon)}"


def within_intervals(frequencies: Sequence[dict[str, Any]]) -> list[bool]:
    """Whether each true frequency lies within 1.96 standard errors of its estimate.

    >>> within_intervals([{"true": 0.5, "estimated": 0.3, "standard_error": 0.1}])
    [False]
    """
    # An estimate without noise differs from the truth by rounding alone.
    return [abs(row["true"] - row["estimated"]) <= 1.96 * row["standard_error"] + 1e-9 for row in frequencies]


def _seconds_text(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds:.3f}"
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}"


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
