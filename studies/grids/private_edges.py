"""Private neighbours: all answers between the label alone and a public graph, beside published figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from studies.grids.sheets import Sheet
from veilgraph.errors import MissingExtraError
from veilgraph.experiments.edge_knowledge import ALONE
from veilgraph.experiments.neighbour_design import CLASS, HISTOGRAM, LIST
from veilgraph.experiments.results import Row
from veilgraph.pages.epsilon_axis import Band, draw_band, draw_epsilon_axis, draw_level, in_words
from veilgraph.pages.formatting import spread_text
from veilgraph.pages.neighbour_page import ANSWER_COLOURS, ANSWER_MARKERS, EDGE_AXIS, LEVEL_COLOURS
from veilgraph.pages.paired_differences import CONTROL, PairedDifference, datasets_of, find, paired
from veilgraph.pages.rendering import Panel, colour, file_name
from veilgraph.pages.result_tables import Table, dataset_name

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

PUBLIC_GRAPH = "public_graph"
_ANSWERS = (CLASS, HISTOGRAM, LIST)
_LEVELS = (ALONE, CONTROL, PUBLIC_GRAPH)
_TITLES = {
    ALONE: "Own label alone",
    CLASS: "Class, any two lists",
    HISTOGRAM: "Histogram, one entry",
    LIST: "Randomized list, one entry",
    CONTROL: "Control, public graph",
    PUBLIC_GRAPH: "Veil, public graph",
}

BLINK = {
    "facebook": {1.0: "76.4", 2.0: "76.5", 4.0: "82.1", 8.0: "92.1"},
    "cora": {1.0: "71.2", 2.0: "71.3", 4.0: "81.0", 8.0: "87.1"},
    "citeseer": {1.0: "73.9", 2.0: "73.8", 4.0: "75.8", 8.0: "79.5"},
    "lastfm": {1.0: "71.4", 2.0: "71.6", 4.0: "76.9", 8.0: "85.1"},
}
"""Published accuracies of Blink's best variant in its `results.json`, in percent, by data set and edge epsilon.

Source: "Blink: Link Local Differential Privacy in Graph Neural Networks via Bayesian Estimation", CCS 2023.

It protects one entry of a list, and reads clean features and the clean labels of half of the people. Without any graph
the same features give 76.5 on Facebook and 71.0 on Cora there.
"""


@dataclass(frozen=True, kw_only=True)
class EdgeSetting:
    """All that was run on one data set with the same labels.

    Attributes:
        dataset: key of the data set.
        epsilon_y: budget of the label, infinite for clean labels.
        levels: rows that no edge epsilon changes: the label alone, the control and Veil on the public graph.
        answers: rows by answer and edge epsilon.
    """

    dataset: str
    epsilon_y: float
    levels: dict[str, Row]
    answers: dict[str, dict[float, Row]]

    @property
    def labels(self) -> str:
        """Labels in words."""
        return "clean, 50 %" if math.isinf(self.epsilon_y) else f"ε_y = {self.epsilon_y:g}, 75 %"

    @property
    def edge_epsilons(self) -> list[float]:
        """Edge epsilons at which something was run, rising."""
        return sorted({epsilon for rows in self.answers.values() for epsilon in rows})

    def lead(self, edge_epsilon: float) -> PairedDifference | None:
        """Return the histogram minus the list, which protect the same; None where one was not run."""
        histogram, of_list = (self.answers.get(answer, {}).get(edge_epsilon) for answer in (HISTOGRAM, LIST))
        return None if histogram is None or of_list is None else paired(histogram, of_list)


def edge_settings(rows: Sequence[Row]) -> list[EdgeSetting]:
    """Return the settings by data set; clean labels first, then by falling budget."""
    found = []
    for dataset in datasets_of(rows):
        own = [row for row in rows if row.dataset == dataset]
        for epsilon_y in sorted({row.epsilon_y for row in own if row.epsilon_y is not None}, reverse=True):
            same = [row for row in own if row.epsilon_y == epsilon_y]
            levels = {
                ALONE: find(same, neighbours=ALONE),
                CONTROL: find(same, method=CONTROL, neighbours=None),
                PUBLIC_GRAPH: find(same, method="veil_labels", neighbours=None),
            }
            answers: dict[str, dict[float, Row]] = {answer: {} for answer in _ANSWERS}
            for row in same:
                if row.swept.get("neighbours") in _ANSWERS:
                    answers[row.swept["neighbours"]][row.swept["edge_epsilon"]] = row
            found.append(
                EdgeSetting(
                    dataset=dataset,
                    epsilon_y=epsilon_y,
                    levels={level: row for level, row in levels.items() if row is not None},
                    answers={answer: dict(sorted(each.items())) for answer, each in answers.items()},
                )
            )
    return found


def private_edges_in_words(rows: Sequence[Row]) -> str:
    """Return in words where the histogram or the list is clearly better; "" if nothing is compared."""
    leads = [
        (f"{dataset_name(each.dataset)} ({each.labels}) at {epsilon:g}: {lead}", lead)
        for each in edge_settings(rows)
        for epsilon in each.edge_epsilons
        if (lead := each.lead(epsilon)) is not None
    ]
    if not leads:
        return ""
    above = [words for words, lead in leads if lead.clear and lead.mean > 0]
    below = [words for words, lead in leads if lead.clear and lead.mean < 0]
    named = f" Clearly below: {'; '.join(below)}." if below else ""
    return (
        f"At equal epsilon for one entry of a list, the histogram is clearly above the randomized list in "
        f"{len(above)} of {len(leads)} settings, and clearly below it in {len(below)}.{named}"
    )


def private_edges_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table of all answers at every edge epsilon, or None."""
    lines = [(each, epsilon) for each in edge_settings(rows) for epsilon in each.edge_epsilons]
    if not lines:
        return None
    columns = (ALONE, *_ANSWERS, CONTROL, PUBLIC_GRAPH)
    table = Table(
        title="All answers at every edge epsilon",
        columns=("Data set", "Labels", "Edge ε", *(_TITLES[each] for each in columns), "Blink, published", "Seeds"),
        text_columns=2,
        rows=tuple(
            (
                dataset_name(each.dataset),
                each.labels,
                f"{epsilon:g}",
                *(_accuracy(_row(each, column, epsilon)) for column in columns),
                _published(each, epsilon),
                _seeds([_row(each, answer, epsilon) for answer in _ANSWERS]),
            )
            for each, epsilon in lines
        ),
        note=(
            f"{private_edges_in_words(rows)} Accuracy on silent people in percent: mean ± standard error over seeds; "
            "the last column has the number of seeds of the three answers. ε_y is at user level (any two records). The "
            "edge ε is that of a whole list for the class (any two lists), and of one entry for the others; a "
            "relationship that both ends report has twice as much. From randomized lists (randomized adjacency in the "
            "literature) Veil learns on the graph of pairs who name each other; they were not run where these are more "
            "than a million. Blink is cited, not measured: it reads clean features too, and protects one entry."
        ),
    )
    return Sheet(name="private-edges", table=table, records=tuple(_record(each, epsilon) for each, epsilon in lines))


def _row(setting: EdgeSetting, column: str, epsilon: float) -> Row | None:
    return setting.answers[column].get(epsilon) if column in _ANSWERS else setting.levels.get(column)


def _error(row: Row) -> float | None:
    return None if row.std is None else row.std / math.sqrt(len(row.accuracies))


def _accuracy(row: Row | None) -> str:
    return "–" if row is None else spread_text(row.mean, _error(row))


def _published(setting: EdgeSetting, epsilon: float) -> str:
    return BLINK.get(setting.dataset, {}).get(epsilon, "–") if math.isinf(setting.epsilon_y) else "–"


def _seeds(rows: Sequence[Row | None]) -> str:
    return " / ".join("–" if row is None else str(len(row.accuracies)) for row in rows)


def _record(setting: EdgeSetting, epsilon: float) -> dict[str, object]:
    rows = {column: _row(setting, column, epsilon) for column in (ALONE, *_ANSWERS, CONTROL, PUBLIC_GRAPH)}
    lead = setting.lead(epsilon)
    return {
        "dataset": setting.dataset,
        "epsilon_y": "not private" if math.isinf(setting.epsilon_y) else setting.epsilon_y,
        "edge_epsilon": epsilon,
        **{f"{column}_mean": None if row is None else row.mean for column, row in rows.items()},
        **{f"{column}_standard_error": None if row is None else _error(row) for column, row in rows.items()},
        **{f"{column}_seeds": None if row is None else len(row.accuracies) for column, row in rows.items()},
        "histogram_minus_list": None if lead is None else lead.mean,
        "histogram_minus_list_standard_error": None if lead is None else lead.standard_error,
    }


def private_edges_panels(rows: Sequence[Row]) -> list[Panel]:
    """Draw accuracy against the edge epsilon, one panel for each data set and kind of labels."""
    return [_panel(each) for each in edge_settings(rows) if each.edge_epsilons]


def _panel(setting: EdgeSetting) -> Panel:
    bands = [
        Band(
            label=_TITLES[answer],
            points=list(points.items()),
            colour=ANSWER_COLOURS[answer],
            marker=ANSWER_MARKERS[answer],
        )
        for answer, points in setting.answers.items()
        if points
    ]
    levels = {level: setting.levels[level].mean for level in _LEVELS if level in setting.levels}

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.1, 0.135, 0.885, 0.62))
        draw_epsilon_axis(axes, setting.edge_epsilons)
        for level, mean in levels.items():
            draw_level(axes, mean, label=_TITLES[level], paint=LEVEL_COLOURS.get(level, level))
        for band in bands:
            draw_band(axes, band)
        axes.set_xlabel(EDGE_AXIS, color=colour("muted"), fontsize=8)
        figure.legend(loc="upper left", ncols=2, frameon=False, fontsize=8, bbox_to_anchor=(0.0, 1.0))

    name = file_name("private-edges", setting.dataset, f"{setting.epsilon_y:g}")
    title = f"{dataset_name(setting.dataset)}, labels {setting.labels}"
    spoken = [*map(in_words, bands), *(f"{_TITLES[level]}: {100 * mean:.1f}" for level, mean in levels.items())]
    label = f"{title}. Accuracy in percent over the {EDGE_AXIS}. {'; '.join(spoken)}."
    return Panel(name=name, title=title, paint=paint, width=336, height=320, label=label)
