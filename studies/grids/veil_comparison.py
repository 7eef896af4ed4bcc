"""Veil beside every other method, setting by setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.grids.differences import Difference, PublishedDifference, Tally
from studies.grids.sheets import Sheet, tallied
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import method_title, number_text, short_title, spread_text
from veilgraph.pages.paired_differences import CONTROL, counterpart, datasets_of, paired, select
from veilgraph.pages.paper_figures import Dot, dot_panel
from veilgraph.pages.rendering import Panel, file_name
from veilgraph.pages.result_tables import Table, dataset_name, published_text, yes_or_no
from veilgraph.privacy.epsilon import short_epsilon

VEIL = "veil"


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """A method that Veil is compared with.

    Attributes:
        method: key of the method.
        published: whether to compare with the published accuracy instead of the measured one.
    """

    method: str
    published: bool = False

    @property
    def title(self) -> str:
        """Title for a sentence or a list."""
        return f"{short_title(self.method)}, published" if self.published else method_title(self.method)

    @property
    def short(self) -> str:
        """Title for a column head."""
        return f"{short_title(self.method)}, published" if self.published else short_title(self.method)

    def row(self, veil: Row, rows: Sequence[Row]) -> Row | None:
        """Return the row of this method in the setting of a row of Veil, or None."""
        found = counterpart(veil, rows, self.method)
        return None if found is None or (self.published and found.published_mean is None) else found

    def difference(self, veil: Row, rows: Sequence[Row]) -> Difference | None:
        """Return Veil minus this method, or None where one of the two is missing."""
        row = self.row(veil, rows)
        if row is None:
            return None
        return PublishedDifference.of(veil, row) if self.published else paired(veil, row)


OPPONENTS = (
    Opponent(method="rgnn", published=True),
    Opponent(method="lpgnn", published=True),
    Opponent(method="rgnn"),
    Opponent(method="lpgnn"),
    Opponent(method="lpgnn_equal"),
    Opponent(method=CONTROL),
    Opponent(method="veil_equal"),
    Opponent(method="veil_labels"),
)


def veil_settings(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of Veil by data set, the largest budgets first."""
    datasets = datasets_of(rows)
    return sorted(
        select(rows, method=VEIL),
        key=lambda row: (datasets.index(row.dataset), -(row.epsilon_x or 0.0), -(row.epsilon_y or 0.0)),
    )


def veil_tallies(rows: Sequence[Row]) -> list[Tally]:
    """Count the settings in which Veil is above or below each opponent, over the settings that both have."""
    tallies = []
    for opponent in OPPONENTS:
        found = [opponent.difference(veil, rows) for veil in veil_settings(rows)]
        if differences := [each for each in found if each is not None]:
            tallies.append(Tally.of(opponent.title, differences))
    return tallies


def veil_tally_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table "Wins and losses of Veil", or None."""
    tallies = veil_tallies(rows)
    return tallied("beyond-tallies", "Wins and losses of Veil, over the settings that both have", tallies)


def features_in_words(rows: Sequence[Row]) -> str:
    """Return what Veil gains from feature reports, in words; "" where nothing can be compared."""
    label_alone = Opponent(method="veil_labels")
    found = [label_alone.difference(veil, rows) for veil in veil_settings(rows)]
    differences = [each for each in found if each is not None]
    if not differences:
        return ""
    tally = Tally.of(label_alone.method, differences)
    return (
        f"Gain from features: compared with Veil with the label alone, which spends ε_y only, Veil on the paper's "
        f"reports gains {tally.mean_text} points in the mean of {tally.settings} settings. It is clearly above in "
        f"{tally.clearly_above} and clearly below in {tally.clearly_below}."
    )


def veil_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table "Veil beside every other method", or None where nothing can be compared."""
    settings = veil_settings(rows)
    opponents = [each for each in OPPONENTS if any(each.row(veil, rows) for veil in settings)]
    if not opponents:
        return None
    table = Table(
        title="Veil beside every other method",
        columns=("Data set", "ε_x", "ε_y", "User-level ε", "Veil", *(each.short for each in opponents)),
        text_columns=1,
        rows=tuple(_text_row(veil, opponents, rows) for veil in settings),
        note=(
            "Accuracy in percent: mean ± standard deviation over seeds. In brackets: Veil minus the method, mean ± "
            "standard error, paired by seed; differences to published accuracies are not paired. User-level ε holds "
            "for any two records and is shown where it differs from that of Veil."
        ),
    )
    records = [
        _record(veil, each, row, rows) for veil in settings for each in opponents if (row := each.row(veil, rows))
    ]
    return Sheet(name="beyond-veil", table=table, records=tuple(records))


def _text_row(veil: Row, opponents: Sequence[Opponent], rows: Sequence[Row]) -> tuple[str, ...]:
    return (
        dataset_name(veil.dataset),
        number_text(veil.epsilon_x),
        number_text(veil.epsilon_y),
        short_epsilon(veil.epsilon_user_level),
        spread_text(veil.mean, veil.std),
        *(_text(each, veil, rows) for each in opponents),
    )


def _text(opponent: Opponent, veil: Row, rows: Sequence[Row]) -> str:
    row = opponent.row(veil, rows)
    if row is None:
        return "–"
    difference, epsilon = opponent.difference(veil, rows), short_epsilon(row.epsilon_user_level)
    other = "" if epsilon == short_epsilon(veil.epsilon_user_level) else f", ε = {epsilon}"
    accuracy = published_text(row) if opponent.published else spread_text(row.mean, row.std)
    return f"{accuracy} ({'–' if difference is None else difference}{other})"


def _mean(opponent: Opponent, row: Row) -> float:
    return row.published_mean or 0.0 if opponent.published else row.mean


def _record(veil: Row, opponent: Opponent, row: Row, rows: Sequence[Row]) -> dict[str, object]:
    difference = opponent.difference(veil, rows)
    return {
        "dataset": veil.dataset,
        "epsilon_x": veil.epsilon_x,
        "epsilon_y": veil.epsilon_y,
        "veil_mean": veil.mean,
        "veil_std": veil.std,
        "veil_epsilon_user_level": veil.epsilon_user_level,
        "method": opponent.method,
        "published": yes_or_no(opponent.published),
        "mean": _mean(opponent, row),
        "std": row.published_std if opponent.published else row.std,
        "epsilon_user_level": row.epsilon_user_level,
        "difference": None if difference is None else difference.mean,
        "standard_error": None if difference is None else difference.standard_error,
        "beyond_noise": None if difference is None else yes_or_no(difference.clear),
    }


# Figures.

_SHOWN_OPPONENTS = (
    Opponent(method="rgnn", published=True),
    Opponent(method="rgnn"),
    Opponent(method="lpgnn_equal"),
    Opponent(method=CONTROL),
)


def veil_panels(rows: Sequence[Row]) -> list[Panel]:
    """Draw Veil minus the opponents that matter most, one panel for each."""
    panels = []
    for opponent in _SHOWN_OPPONENTS:
        dots = [
            Dot(row=veil, difference=difference.mean, clear=difference.clear)
            for veil in veil_settings(rows)
            if (difference := opponent.difference(veil, rows)) is not None
        ]
        if dots:
            name = file_name("beyond", opponent.method, *(["published"] if opponent.published else []))
            ends = [dot.difference for dot in dots]
            panels.append(dot_panel(name, f"Veil minus {opponent.short}", dots, VEIL, ends))
    return panels
