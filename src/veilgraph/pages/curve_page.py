"""The page of a privacy curve, with its figure: what can be learned at which epsilon, and the campaign that follows."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import MissingExtraError
from veilgraph.pages.epsilon_axis import EPSILON_AXIS, Band, draw_band, draw_epsilon_axis, draw_level, in_words
from veilgraph.pages.formatting import (
    accuracy_text,
    epsilon_text,
    label_report_in_words,
    method_description,
    percent,
    truth_chance,
    unbroken,
)
from veilgraph.pages.paired_differences import CONTROL, PairedDifference
from veilgraph.pages.rendering import colour, inline_svg, render_template, standalone_svg
from veilgraph.pages.run_page import configuration_rows, graph_rows
from veilgraph.privacy.plain_text import counted

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

VEIL, PAPER, BEST_SPLIT = "veil_labels", "rgnn", "rgnn_best"
CURVE_TITLES = {
    "veil_labels": "Veil",
    "structure_only": "Control",
    "rgnn": "RGNN, paper's split",
    "rgnn_best": "RGNN, best split",
    "veil_non_private": "Veil without privacy",
    "non_private": "GNN without privacy",
}
"""Names of the methods in a curve."""
CLOSE = 0.02
"""Loss of accuracy that still counts as close to a result without privacy."""

_REFERENCE = 1.0
_FEW_TESTED = 50
"""Number of test nodes below which one prediction is more than two points."""
_SPENDING = {
    VEIL: "all of it on the label",
    CONTROL: "all of it on the label; the same reports as Veil",
    PAPER: "epsilon_x = epsilon_y = total / (m + 1): the paper's split where both are equal, here with m = {sampled}; "
    "GRR-FS for features and GRR for the label, as in the paper",
    BEST_SPLIT: "the best of the paper's split, a half, and nine tenths for the label, chosen by its accuracy on these "
    "very seeds, which is an advantage that no other method has",
}


@dataclass(frozen=True)
class CampaignFiles:
    """Files and names that a campaign for the same people would use.

    Attributes:
        schema: schema, .toml.
        graph: edge table.
        nodes: node table, or None.
        label: name of the label.
    """

    schema: str = "schema.toml"
    graph: str = "edges.csv"
    nodes: str | None = None
    label: str = "label"


def write_curve_page(result: dict[str, Any], folder: Path, files: CampaignFiles) -> Path:
    """Write the page of a curve beside its result and return its path."""
    path = folder / "report.html"
    write_atomically(path, render_curve_page(result, files))
    return path


def render_curve_page(result: dict[str, Any], files: CampaignFiles) -> str:
    """Render the page of a curve.

    Args:
        result: the result of a curve, as result.json holds it.
        files: what the command for a campaign names.
    """
    return render_template(
        "curve_page.html",
        dataset=result["dataset"],
        graph=result["graph"],
        seeds=result["configuration"]["seeds"],
        headline=headline(result),
        summary=summary(result),
        design=recommended_design(result),
        commands=campaign_commands(result, files),
        invitation=invitation(files),
        curve_wide=curve_plot(result, CURVE_WIDE),
        curve_narrow=curve_plot(result, CURVE_NARROW),
        columns=[CURVE_TITLES[key] for key in result["methods"]],
        points=point_rows(result),
        levels=[
            {"name": CURVE_TITLES[key], "accuracy": accuracy_text(each)} for key, each in result["not_private"].items()
        ],
        ceilings=ceilings_in_words(result),
        sentences=_reference(result)["guarantee_in_words"],
        methods=_method_rows(result),
        graph_facts=graph_rows(result["graph"]),
        configuration=configuration_rows(result["configuration"]),
    )


def headline(result: dict[str, Any]) -> str:
    """Say how accurate a prediction is at a total epsilon of 1, or at the total that is nearest to it."""
    i, method = _reference_index(result), recommended_method(result)
    design, unprotected = result["designs"][i], result["not_private"]["veil_non_private"]
    words = (
        f"With {_reports_in_short(method, design)} at a total epsilon of {design['epsilon']:g} "
        f"(user level, any two records), {_title(method)} predicts {accuracy_text(result['methods'][method][i])} "
        f"(no privacy: {accuracy_text(unprotected)}). "
    )
    largest = f"always predicting the largest class ({percent(result['graph']['majority_share'])})"
    if not _beats_largest_class(result, i):
        return f"{words}That is not clearly above {largest}."
    return f"{words}The largest class alone is right for {percent(result['graph']['majority_share'])}."


def _tested(result: dict[str, Any]) -> int:
    """Return the number of test nodes of a seed: a quarter of all."""
    return max(1, int(result["graph"]["nodes"]) // 4)


def _beats_largest_class(result: dict[str, Any], i: int) -> bool:
    """Tell whether the best private method at a total is above the largest class by more than two standard errors.

    The standard error is of a share of p = the largest class among the test nodes: sqrt(p (1 - p) / tested).
    Seeds test overlapping people, so more seeds do not make it smaller.
    """
    share, tested = result["graph"]["majority_share"], _tested(result)
    best = max(points[i]["accuracy_mean"] for points in result["methods"].values())
    return bool(best > share + 2 * math.sqrt(share * (1 - share) / tested))


def summary(result: dict[str, Any]) -> list[str]:
    """Return the other methods at the same total, and the total from which privacy costs little, in sentences."""
    i, methods = _reference_index(result), result["methods"]
    veil, control = methods[VEIL][i], methods[CONTROL][i]
    difference = PairedDifference.of(veil["accuracies"], control["accuracies"])
    sentences = [
        f"The control, label propagation on the same reports, reaches {accuracy_text(control)}; "
        f"{_compared(difference)}."
    ]
    if PAPER in methods:
        sampled = result["designs"][i][PAPER]["sampled"]
        sentences.append(
            f"RGNN, which divides the total between {counted(sampled, 'feature')} and the label, reaches "
            f"{accuracy_text(methods[PAPER][i])} at the same total, and {accuracy_text(methods[BEST_SPLIT][i])} with "
            f"the division that suits it best ({_label_share(result['designs'][i])} for the label)."
        )
    else:
        sentences.append("RGNN and the GNN without privacy need private features; here are none: they are left out.")
    if (tested := _tested(result)) < _FEW_TESTED:
        sentences.append(
            f"Only {counted(tested, 'test node')} in each seed: one of them is {100 / tested:.1f} points of accuracy."
        )
    return [*sentences, _close_in_words(result)]


def _label_share(design: dict[str, Any]) -> str:
    """Return the share of the total that the best division gives to the label."""
    return unbroken(f"{100 * design[BEST_SPLIT]['epsilon_y'] / design['epsilon']:.0f} %")


def _compared(difference: PairedDifference) -> str:
    points = f"{abs(100 * difference.mean):.1f} points {'above' if difference.mean > 0 else 'below'} it"
    if difference.standard_error is None:
        return f"with one seed Veil is {points}"
    clearly = "more than seeds differ by chance" if difference.clear else "within the spread between seeds"
    return f"Veil is {points}, {clearly}"


def _close_in_words(result: dict[str, Any]) -> str:
    """Return the smallest total from which on Veil is close to its accuracy without privacy."""
    level = result["not_private"]["veil_non_private"]["accuracy_mean"]
    gaps = [level - point["accuracy_mean"] for point in result["methods"][VEIL]]
    close = [all(gap <= CLOSE for gap in gaps[i:]) for i in range(len(gaps))]
    if not any(close):
        return (
            f"At a total of {result['totals'][-1]:g}, the largest one here, Veil is {100 * gaps[-1]:.1f} points below "
            "its accuracy without privacy."
        )
    first = result["totals"][close.index(True)]
    return f"From a total of {first:g} on, Veil is within {100 * CLOSE:g} points of its accuracy without privacy."


def ceilings_in_words(result: dict[str, Any]) -> list[str]:
    """Say of each result without privacy whether it is a ceiling: no private method may lie above one."""
    sentences = []
    for key, level in result["not_private"].items():
        above = [
            (total, method)
            for i, total in enumerate(result["totals"])
            for method, points in result["methods"].items()
            if points[i]["accuracy_mean"] > level["accuracy_mean"]
        ]
        name = f"{CURVE_TITLES[key]} ({percent(level['accuracy_mean'])})"
        if above:
            total, method = above[0]
            sentences.append(f"{name} is not a ceiling: {_title(method)} is above it at a total of {total:g}.")
        else:
            sentences.append(f"{name} is a ceiling here: no private method is above it.")
    return sentences


def recommended_method(result: dict[str, Any]) -> str:
    """Return Veil, or the method that is clearly better than Veil at the reference total."""
    i, methods = _reference_index(result), result["methods"]
    veil = methods[VEIL][i]["accuracies"]
    clearly = [
        key
        for key, points in methods.items()
        if (difference := PairedDifference.of(points[i]["accuracies"], veil)).clear and difference.mean > 0
    ]
    return max(clearly, key=lambda key: methods[key][i]["accuracy_mean"], default=VEIL)


def recommended_design(result: dict[str, Any]) -> str:
    """Return in words what to ask people, and how to learn from their reports; or why nothing is recommended."""
    design, method = _reference(result), recommended_method(result)
    if not _beats_largest_class(result, _reference_index(result)):
        return _nothing_in_words(result)
    if method in (PAPER, BEST_SPLIT):
        split = design[method]
        return (
            f"Ask for {counted(split['sampled'], 'feature')} of each person at epsilon_x = {split['epsilon_x']:.4g} "
            f"and for the label at epsilon_y = {split['epsilon_y']:.4g}, and train RGNN."
        )
    train = "train Veil, the default" if method == VEIL else "train the control (--method structure_only)"
    return f"Ask for the label alone: {label_report_in_words(design)}. Then {train}."


def _nothing_in_words(result: dict[str, Any]) -> str:
    """Return why no design is recommended, and what to try."""
    totals = [total for i, total in enumerate(result["totals"]) if _beats_largest_class(result, i)]
    words = (
        f"nothing. At a total of {_reference(result)['epsilon']:g} no method is clearly above the largest class: the "
        "network tells too little about this question, or there are too few people. Shares of the classes can still "
        "be estimated (veilgraph estimate)."
    )
    return f"{words} From a total of {totals[0]:g} on, a method is above it." if totals else words


def campaign_commands(result: dict[str, Any], files: CampaignFiles) -> list[str]:
    """Return the command that makes the recommended design a campaign, and the one that weighs others first.

    There is none where no design is recommended.
    """
    if not _beats_largest_class(result, _reference_index(result)):
        return []
    design, method = _reference(result), recommended_method(result)
    people = [] if files.nodes is None else ["--people", files.nodes]
    graph = ["--graph", files.graph, *([] if files.nodes is None else ["--nodes", files.nodes])]
    budget = {"epsilon_y": f"{design['epsilon']:g}"}
    if method in (PAPER, BEST_SPLIT):
        split = design[method]
        budget = {"epsilon_x": repr(split["epsilon_x"]), "sampled": str(split["sampled"])}
        budget["epsilon_y"] = repr(split["epsilon_y"])
    init = [*people, "--links", files.graph, "--schema", files.schema, "--question", files.label]
    init += [word for name, value in budget.items() for word in ("--set", f"{name}={value}")]
    init += ["--purpose", "Why we ask", "--contact", "who@example.org", "--closes", "2030-12-31"]
    plan = ["--epsilon", f"{design['epsilon']:g}", "--schema", files.schema, *graph, "--label", files.label]
    return [
        shlex.join(["veilgraph", "init", "collection", *init]),
        shlex.join(["veilgraph", "plan", *plan, "--out", "plan.json"]),
    ]


def invitation(files: CampaignFiles) -> str:
    """Return the words before the command for a campaign: files of the reader's own are still to be named, or known."""
    named = "with your own schema and graph" if files == CampaignFiles() else "with these files"
    return f"Make it a campaign, {named}; say in your own words why you ask"


@dataclass(frozen=True, kw_only=True)
class PointRow:
    """One total of the curve, as text.

    Attributes:
        epsilon: the total, with four decimals.
        reports: number of classes that a report for Veil and the control names, out of all.
        truth: chance that the true class is one of them.
        accuracies: mean and standard deviation of each method, in the order of the result.
        difference: difference of Veil to the control.
    """

    epsilon: str
    reports: str
    truth: str
    accuracies: list[str]
    difference: str


def point_rows(result: dict[str, Any]) -> list[PointRow]:
    """Return the table of the curve, one row for each total."""
    methods = result["methods"]
    return [
        PointRow(
            epsilon=epsilon_text(total),
            reports=f"{design['set_size']} of {design['classes']}",
            truth=truth_chance(design),
            accuracies=[accuracy_text(points[i]) for points in methods.values()],
            difference=str(PairedDifference.of(methods[VEIL][i]["accuracies"], methods[CONTROL][i]["accuracies"])),
        )
        for i, (total, design) in enumerate(zip(result["totals"], result["designs"], strict=True))
    ]


def _reports_in_short(method: str, design: dict[str, Any]) -> str:
    if method in (PAPER, BEST_SPLIT):
        return "randomized features and labels"
    return "label sets" if design["set_size"] > 1 else "randomized labels"


def _method_rows(result: dict[str, Any]) -> list[dict[str, str]]:
    sampled = result["configuration"]["sampled"]
    return [
        {
            "name": CURVE_TITLES[key],
            "uses": method_description(PAPER if key == BEST_SPLIT else key),
            "spends": _SPENDING[key].format(sampled=sampled) if key in _SPENDING else "nothing is protected",
        }
        for key in (*result["methods"], *result["not_private"])
    ]


def _title(key: str) -> str:
    return {CONTROL: "the control", PAPER: "RGNN", BEST_SPLIT: "RGNN"}.get(key, CURVE_TITLES[key])


def _reference(result: dict[str, Any]) -> dict[str, Any]:
    design: dict[str, Any] = result["designs"][_reference_index(result)]
    return design


def _reference_index(result: dict[str, Any]) -> int:
    """Return the place of the total that is nearest to 1, by ratio."""
    totals = result["totals"]
    return min(range(len(totals)), key=lambda i: abs(math.log(totals[i] / _REFERENCE)))


# The figure.

_MARKERS = {"veil_labels": "o", "structure_only": "D", "rgnn": "s", "rgnn_best": "^"}
_LARGEST_CLASS = "Largest class"


@dataclass(frozen=True, kw_only=True)
class CurveLayout:
    """Size of the figure in pixels.

    Attributes:
        width: width of the figure.
        height: height of the figure.
        right: width of the names to the right of the lines; 0 for a legend above them.
    """

    width: int
    height: int
    right: int


CURVE_WIDE = CurveLayout(width=800, height=420, right=164)
"""Layout for a desktop, a README or a slide."""
CURVE_NARROW = CurveLayout(width=340, height=390, right=0)
"""Layout for a phone, where names would take half of the width."""


@dataclass(frozen=True, kw_only=True)
class _Accuracies:
    mean: float
    std: float | None

    @classmethod
    def of(cls, summary: dict[str, Any]) -> _Accuracies:
        return cls(mean=summary["accuracy_mean"], std=summary["accuracy_std"])


def curve_figure(result: dict[str, Any]) -> str:
    """Draw the curve as an SVG file, for a README or a slide."""
    return standalone_svg(curve_plot(result, CURVE_WIDE))


def curve_plot(result: dict[str, Any], layout: CurveLayout) -> str:
    """Draw mean and standard deviation of every method over the totals, and levels of methods without privacy."""
    bands, majority = _bands(result), result["graph"]["majority_share"]
    left, bottom, top = 40, 44, 12 if layout.right else 78

    def paint(figure: Figure) -> None:
        inner = layout.width - left - (layout.right or 12), layout.height - bottom - top
        box = (left / layout.width, bottom / layout.height, inner[0] / layout.width, inner[1] / layout.height)
        axes = figure.add_axes(box)
        for band in bands:
            draw_band(axes, band)
        for key, summary in result["not_private"].items():
            draw_level(axes, summary["accuracy_mean"], label=CURVE_TITLES[key], paint=key)
        axes.axhline(100 * majority, color=colour("muted"), linewidth=1.2, linestyle=(0, (1, 2)), label=_LARGEST_CLASS)
        draw_epsilon_axis(axes, result["totals"])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        axes.set_xlabel(EPSILON_AXIS, color=colour("muted"))
        if layout.right:
            _names(axes, _ends(result, bands, majority), inner)
        else:
            handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            names = [name for name in (*CURVE_TITLES.values(), _LARGEST_CLASS) if name in handles]
            figure.legend(
                [handles[name] for name in names],
                names,
                loc="upper left",
                ncols=2,
                frameon=False,
                fontsize=10,
                handlelength=2.2,
                columnspacing=1.0,
                borderaxespad=0.1,
            )

    levels = "; ".join(
        f"{CURVE_TITLES[key]}: {100 * each['accuracy_mean']:.1f}" for key, each in result["not_private"].items()
    )
    return inline_svg(
        paint,
        width=layout.width,
        height=layout.height,
        name=f"curve-{layout.width}",
        label=f"Accuracy in percent over the {EPSILON_AXIS}. {'; '.join(map(in_words, reversed(bands)))}. "
        f"{levels}. Largest class: {percent(majority)}.",
    )


def _bands(result: dict[str, Any]) -> list[Band]:
    """Return a band for each private method, Veil last so that it is drawn on top."""
    return [
        Band(
            label=CURVE_TITLES[key],
            points=list(zip(result["totals"], map(_Accuracies.of, summaries), strict=True)),
            colour=key,
            marker=_MARKERS[key],
            line=(0, (2, 2)) if key == PAPER else "solid",
        )
        for key, summaries in reversed(result["methods"].items())
    ]


def _ends(result: dict[str, Any], bands: Sequence[Band], majority: float) -> list[tuple[float, str, str]]:
    """Return the last accuracy in percent, the name and the colour of every line."""
    levels = [(100 * each["accuracy_mean"], CURVE_TITLES[key], key) for key, each in result["not_private"].items()]
    lines = [(100 * band.points[-1][1].mean, band.label, band.colour) for band in bands]
    return [*lines, *levels, (100 * majority, _LARGEST_CLASS, "muted")]


def _names(axes: Axes, ends: Sequence[tuple[float, str, str]], size: tuple[int, int]) -> None:
    """Write the name of each line beside its end, moved apart where names would overlap."""
    low, high = axes.get_ylim()
    ordered = sorted(ends)
    heights = [(value - low) / (high - low) for value, _, _ in ordered]
    places = spread_apart(heights, gap=17 / size[1], top=1.0)
    for (_, name, paint), height, place in zip(ordered, heights, places, strict=True):
        start, end = 1 + 4 / size[0], 1 + 16 / size[0]
        axes.plot(
            [start, end],
            [height, place],
            transform=axes.transAxes,
            color=colour(paint),
            linewidth=1,
            clip_on=False,
        )
        axes.text(
            1 + 20 / size[0],
            place,
            name,
            transform=axes.transAxes,
            va="center_baseline",
            fontsize=12,
            color=colour(paint),
        )


def spread_apart(heights: Sequence[float], *, gap: float, top: float) -> list[float]:
    """Move ascending heights apart until neighbours differ by `gap` and none is above `top`.

    >>> spread_apart([0.25, 0.75, 0.875], gap=0.25, top=1.0)
    [0.25, 0.75, 1.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + gap) if places else height)
    limit = top
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places
