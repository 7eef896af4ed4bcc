"""The page of private neighbours, with its figure: accuracy against the edge epsilon, between floor and ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import MissingExtraError
from veilgraph.pages.epsilon_axis import Band, draw_band, draw_epsilon_axis, draw_level, in_words
from veilgraph.pages.formatting import accuracy_text
from veilgraph.pages.rendering import inline_svg, render_template

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

ANSWER_TITLES = {
    "histogram": "Histogram (protects one entry)",
    "class": "Class (protects any two lists)",
    "list": "Randomized list (protects one entry)",
}
LEVEL_TITLES = {
    "public_graph": "Veil, if the graph were public",
    "control": "Control, if the graph were public",
    "label_and_features": "Own label and features alone",
    "label_alone": "Own label alone",
}
EDGE_AXIS = "ε of a person's neighbour list, under the relation of the answer"

ANSWER_COLOURS = {"histogram": "veil", "class": "rgnn", "list": "lpgnn"}
ANSWER_MARKERS = {"histogram": "o", "class": "s", "list": "^"}
LEVEL_COLOURS = {
    "public_graph": "non_private",
    "control": "structure_only",
    "label_and_features": "muted",
    "label_alone": "muted",
    "alone": "muted",
}


@dataclass(frozen=True)
class _Spread:
    """Accuracies of one point."""

    mean: float
    std: float | None


def write_neighbour_page(result: dict[str, Any], folder: Path) -> Path:
    """Write the page of a curve beside its result and return its path."""
    path = folder / "report.html"
    write_atomically(path, render_neighbour_page(result))
    return path


def render_neighbour_page(result: dict[str, Any]) -> str:
    """Render the page of a curve, as `neighbour_curve` returns it."""
    answers = result["answers"]
    rows = [
        {
            "epsilon": f"{total:g}",
            "cells": [
                {
                    "accuracy": accuracy_text(points[i]),
                    "design": points[i]["design"],
                    "costs": _costs_in_words(points[i]),
                }
                for points in answers.values()
            ],
        }
        for i, total in enumerate(result["edge_epsilons"])
    ]
    return render_template(
        "neighbour_page.html",
        result=result,
        headline=headline(result),
        figure=curve_figure(result),
        titles=[ANSWER_TITLES[answer] for answer in answers],
        rows=rows,
        levels=[(LEVEL_TITLES[level], accuracy_text(found)) for level, found in result["levels"].items()],
        guarantees=[
            (f"{ANSWER_TITLES[answer]}, {points[-1]['design']}", points[-1]["guarantee_in_words"])
            for answer, points in answers.items()
        ],
    )


def _costs_in_words(point: dict[str, Any]) -> str:
    """Describe size and errors of a randomized list; "" for answers in waves."""
    if "names" not in point:
        return ""
    return f"{point['names']:,.0f} names in a report, {point['false_neighbours']:,.1f} false neighbours for each person"


def headline(result: dict[str, Any]) -> str:
    """Compare the accuracies of all answers at the largest edge epsilon."""
    last = {answer: points[-1] for answer, points in result["answers"].items()}
    levels = {level: accuracy_text(found) for level, found in result["levels"].items()}
    total = f"{result['edge_epsilons'][-1]:g}"
    told = f" and {result['sampled']} times {result['epsilon_x']:g} for features" if result["epsilon_x"] else ""
    of_list = f", and {accuracy_text(last['list'])} from lists" if last["list"]["accuracy_mean"] is not None else ""
    return (
        f"Nobody holds the graph, and the label has an epsilon of {result['epsilon_y']:g}{told} "
        f"(any two {'records' if told else 'labels'}). At {total} for one entry of a list, "
        f"{accuracy_text(last['histogram'])} of silent people are predicted from histograms{of_list}; "
        f"at {total} for any two lists {accuracy_text(last['class'])} from classes. "
        f"Without any neighbour it is {levels['label_alone']}. "
        f"If the graph were public, it would be {levels['public_graph']}, and {levels['control']} for the control. "
        f"{spread_in_words(result['seeds'])}"
    )


def spread_in_words(seeds: Sequence[int]) -> str:
    """Say over how many seeds means and spreads are taken.

    >>> spread_in_words([0, 1, 2])
    'Mean ± standard deviation over 3 seeds.'
    """
    return (
        "One seed: the spread is not known."
        if len(seeds) == 1
        else f"Mean ± standard deviation over {len(seeds)} seeds."
    )


def curve_figure(result: dict[str, Any]) -> str:
    """Return the figure of a curve as inline SVG."""
    bands = [
        Band(
            label=ANSWER_TITLES[answer],
            points=[
                (point["edge_epsilon"], _Spread(point["accuracy_mean"], point["accuracy_std"]))
                for point in points
                if point["accuracy_mean"] is not None
            ],
            colour=ANSWER_COLOURS[answer],
            marker=ANSWER_MARKERS[answer],
        )
        for answer, points in result["answers"].items()
        if any(point["accuracy_mean"] is not None for point in points)
    ]
    levels = {level: found["accuracy_mean"] for level, found in result["levels"].items()}

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.07, 0.14, 0.9, 0.66))
        draw_epsilon_axis(axes, result["edge_epsilons"])
        for level in (each for each in LEVEL_TITLES if each in levels):
            draw_level(axes, levels[level], label=LEVEL_TITLES[level], paint=LEVEL_COLOURS[level])
        for band in bands:
            draw_band(axes, band)
        axes.set_xlabel(EDGE_AXIS)
        figure.legend(loc="upper left", ncols=2, frameon=False, bbox_to_anchor=(0.05, 1.0))
        axes.set_title("accuracy on silent people, %", loc="left", fontsize=10)

    spoken = "; ".join(
        [*(in_words(band) for band in bands), *(f"{LEVEL_TITLES[k]}: {100 * v:.1f}" for k, v in levels.items())]
    )
    return inline_svg(paint, width=760, height=400, name="neighbours", label=f"Accuracy in percent. {spoken}")
