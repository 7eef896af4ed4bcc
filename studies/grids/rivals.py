"""Rivals side by side: every method at every total epsilon, and where Veil is below one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.grids.frontier import total_of
from studies.grids.sheets import Sheet
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import short_title, spread_text
from veilgraph.pages.paired_differences import CONTROL, PairedDifference, datasets_of, paired
from veilgraph.pages.result_tables import Table, dataset_name, yes_or_no

VEIL = "veil_labels"


@dataclass(frozen=True, kw_only=True)
class Contest:
    """All methods on one data set at one total epsilon.

    Attributes:
        dataset: key of the data set.
        total: user-level epsilon, any two records.
        rows: the best row of each method: over splits of the total and label mechanisms.
    """

    dataset: str
    total: float
    rows: dict[str, Row]

    @property
    def best(self) -> str:
        """Method with the highest mean."""
        return max(self.rows, key=lambda method: self.rows[method].mean)

    @property
    def best_rival(self) -> str | None:
        """Method with the highest mean, without Veil and the control; None if there is no other."""
        rivals = self.rows.keys() - {VEIL, CONTROL}
        return max(rivals, key=lambda method: self.rows[method].mean, default=None)

    def lead(self, method: str) -> PairedDifference | None:
        """Return Veil minus another method, paired by seed; None where one of the two is missing."""
        veil, other = self.rows.get(VEIL), self.rows.get(method)
        return None if veil is None or other is None else paired(veil, other)


def contests(rows: Sequence[Row]) -> list[Contest]:
    """Return the contests by data set and rising total."""
    found: dict[tuple[str, float], dict[str, Row]] = {}
    for row in rows:
        if (total := total_of(row)) is not None:
            best = found.setdefault((row.dataset, total), {})
            if row.method not in best or row.mean > best[row.method].mean:
                best[row.method] = row
    return [
        Contest(dataset=dataset, total=total, rows=found[dataset, total])
        for dataset in datasets_of(rows)
        for total in sorted(total for name, total in found if name == dataset)
    ]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A rival that is clearly above Veil: the 95 % interval of the paired difference excludes zero.

    Attributes:
        contest: data set, total and rows.
        rival: key of the method.
        lead: Veil minus the rival.
    """

    contest: Contest
    rival: str
    lead: PairedDifference

    def __str__(self) -> str:
        contest = self.contest
        return f"{dataset_name(contest.dataset)} at {contest.total:g}: {short_title(self.rival)} ({self.lead})"


def losses(found: Sequence[Contest]) -> list[Loss]:
    """Return every comparison in which a rival or the control is clearly above Veil."""
    compared = [(contest, method, contest.lead(method)) for contest in found for method in contest.rows]
    return [
        Loss(contest=contest, rival=method, lead=lead)
        for contest, method, lead in compared
        if method != VEIL and lead is not None and lead.mean < 0 and lead.clear
    ]


def rivals_in_words(rows: Sequence[Row]) -> str:
    """Return in words in how many settings Veil is at or above every rival within noise; "" without Veil."""
    found = [contest for contest in contests(rows) if VEIL in contest.rows and len(contest.rows) > 1]
    if not found:
        return ""
    lost = losses(found)
    settings = {(loss.contest.dataset, loss.contest.total) for loss in lost}
    comparisons = sum(len(contest.rows) - 1 for contest in found)
    first = sum(contest.best == VEIL for contest in found)
    named = f" Clearly below: {'; '.join(map(str, lost))}." if lost else ""
    return (
        f"Veil, label alone, has the highest mean in {first} of {len(found)} settings, and is at or above every rival "
        f"within noise in {len(found) - len(settings)}. It is clearly below in {len(lost)} of {comparisons} "
        f"comparisons; about {0.025 * comparisons:.0f} would be by chance if all were equal.{named}"
    )


def rivals_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table of all methods at every total, or None."""
    found = contests(rows)
    if not found:
        return None
    methods = list(dict.fromkeys([VEIL, CONTROL, *(row.method for row in rows if total_of(row) is not None)]))
    table = Table(
        title="All methods at every total",
        columns=("Data set", "Total ε", *map(short_title, methods), "Veil − best rival"),
        text_columns=1,
        rows=tuple(_text(contest, methods) for contest in found),
        bold=frozenset((place, 2 + methods.index(contest.best)) for place, contest in enumerate(found)),
        note=(
            f"{rivals_in_words(rows)} Accuracy in percent: mean ± standard deviation over seeds; bold: the highest "
            "mean. The total is at user level and holds for any two records. Rivals have the best of several divisions "
            "of the total between label and features, and the better one of label sets and GRR, both chosen by their "
            "accuracy on these very seeds; Veil and the control have neither advantage. Last column: mean ± standard "
            "error of the differences, paired by seed."
        ),
    )
    return Sheet(name="rivals-side-by-side", table=table, records=tuple(_record(contest, methods) for contest in found))


def _text(contest: Contest, methods: Sequence[str]) -> tuple[str, ...]:
    rows = [contest.rows.get(method) for method in methods]
    lead = None if contest.best_rival is None else contest.lead(contest.best_rival)
    return (
        dataset_name(contest.dataset),
        f"{contest.total:g}",
        *("–" if row is None else spread_text(row.mean, row.std) for row in rows),
        "–" if lead is None else str(lead),
    )


def _record(contest: Contest, methods: Sequence[str]) -> dict[str, object]:
    rows = {method: contest.rows.get(method) for method in methods}
    lead = None if contest.best_rival is None else contest.lead(contest.best_rival)
    return {
        "dataset": contest.dataset,
        "total_epsilon": contest.total,
        **{f"{method}_mean": None if row is None else row.mean for method, row in rows.items()},
        **{f"{method}_std": None if row is None else row.std for method, row in rows.items()},
        **{f"{method}_epsilon_y": None if row is None else row.epsilon_y for method, row in rows.items()},
        "best_rival": contest.best_rival,
        "veil_minus_best_rival": None if lead is None else lead.mean,
        "veil_minus_best_rival_standard_error": None if lead is None else lead.standard_error,
        "at_or_above_every_rival_within_noise": None if lead is None else yes_or_no(not losses([contest])),
    }
