"""The page of one run, with its figures: a single HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import MissingExtraError
from veilgraph.models.registry import METHODS
from veilgraph.pages.formatting import (
    accuracy_text,
    epsilon_text,
    label_report_in_words,
    method_description,
    method_title,
    percent,
)
from veilgraph.pages.paired_differences import CONTROL, PairedDifference
from veilgraph.pages.rendering import colour, inline_svg, render_template, standalone_svg
from veilgraph.privacy.epsilon import short_epsilon

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

_SETTING_TITLES = {
    "dataset": "Data",
    "epsilon_x": "Requested budget of each sampled feature (epsilon_x)",
    "epsilon_y": "Requested budget of the label (epsilon_y)",
    "sampled": "Features sampled by each person (m)",
    "backbone": "GNN backbone",
    "seeds": "Seeds",
    "feature_hops": "Hops of feature reconstruction (K_x)",
    "label_hops": "Hops of label reconstruction (K_y)",
    "num_clusters": "Clusters for label proportions (C)",
    "llp_weight": "Weight of the label-proportion loss (alpha)",
    "epochs": "Epochs of every GNN",
    "totals": "Totals of the curve (user-level epsilon, any two records)",
    "data_sha256": "Hash of the data",
    "version": "veilgraph version",
}


# Methods that the summary leaves to the table, or names last.
_UNTOLD = ("plain", CONTROL)


def write_run_page(result: dict[str, Any], folder: Path) -> Path:
    """Write the page of a run beside its result and return its path."""
    path = folder / "report.html"
    write_atomically(path, render_run_page(result))
    return path


def render_run_page(result: dict[str, Any]) -> str:
    """Render the page of a run.

    Args:
        result: the result of a run, as result.json holds it.
    """
    return render_template(
        "run_page.html",
        dataset=result["dataset"],
        graph=result["graph"],
        seeds=result["configuration"]["seeds"],
        headline=headline(result),
        summary=summary(result),
        sentences=result["guarantee_in_words"],
        label_report=label_report_in_words(result["label"]),
        paper_labels="rgnn" in result["methods"],
        label_sets=result["label"]["set_size"] > 1,
        guarantee=_guarantee(result["guarantee"]),
        methods=method_rows(result),
        accuracy_wide=accuracy_plot(result, WIDE),
        accuracy_narrow=accuracy_plot(result, NARROW),
        curves=_curves(result),
        frequencies=_frequencies(result["frequencies"]),
        graph_facts=graph_rows(result["graph"]),
        configuration=configuration_rows(result["configuration"]),
    )


def headline(result: dict[str, Any]) -> str:
    """Return the verdict: whether the first method is above the control, which uses no features."""
    methods = result["methods"]
    first = next(iter(methods))
    difference = PairedDifference.of(methods[first]["accuracies"], methods[CONTROL]["accuracies"])
    sentence = _compared_with_control(method_title(first), difference)
    majority = result["graph"]["majority_share"]
    if methods[first]["accuracy_mean"] <= majority:
        sentence += f" {method_title(first)} is not above always predicting the largest class ({percent(majority)})."
    return sentence


def _compared_with_control(name: str, difference: PairedDifference) -> str:
    points = f"{abs(100 * difference.mean):.1f} points"
    ahead, control = difference.mean > 0, "control that uses no features"
    if difference.standard_error is None:
        place = f"{points} above" if ahead else "not above"
        return f"With one seed, {name} is {place} the {control}; the spread between seeds is not known."
    if difference.clear:
        return f"{name} beats the {control} by {points}." if ahead else f"The {control} beats {name} by {points}."
    if points == "0.0 points":
        return f"{name} is level with the {control}: their mean difference rounds to 0.0 points."
    if ahead:
        return f"{name} is {points} above the {control}, within the spread between seeds."
    return f"{name} is not above the {control}: {points} below, within the spread between seeds."


def summary(result: dict[str, Any]) -> str:
    """Return the accuracy and the epsilon of the methods in a sentence, those without privacy last."""
    methods = result["methods"]
    told = [
        f"{method_title(key)} reaches {accuracy_text(method)} {_at(method)}"
        for key, method in methods.items()
        if key not in _UNTOLD and key in METHODS and METHODS[key].private
    ]
    control = methods[CONTROL]
    told.append(f"label propagation without any features reaches {accuracy_text(control)} {_at(control)}")
    told += [
        f"the {method_title(key).replace('Non-', 'non-')} reaches {accuracy_text(method)}"
        for key, method in methods.items()
        if key in METHODS and not METHODS[key].private
    ]
    return f"{'; '.join(told)}. Always predicting the largest class gives {percent(result['graph']['majority_share'])}."


def _at(method: dict[str, Any]) -> str:
    epsilon = method["epsilon_user_level"]
    return "without privacy" if isinstance(epsilon, str) else f"at a user-level epsilon of {short_epsilon(epsilon)}"


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """One line of the table of methods, as text.

    Attributes:
        name: title of the method.
        uses: data that the method uses.
        epsilon: user-level epsilon with four decimals, or "not private".
        accuracy: mean and standard deviation.
        difference: difference to the control; empty for the control itself.
        seconds: seconds for each fit.
    """

    name: str
    uses: str
    epsilon: str
    accuracy: str
    difference: str
    seconds: str


def method_rows(result: dict[str, Any]) -> list[MethodRow]:
    """Return the table of methods, in the order of the result."""
    control = result["methods"][CONTROL]["accuracies"]
    return [
        MethodRow(
            name=method_title(key),
            uses=method_description(key),
            epsilon=epsilon_text(method["epsilon_user_level"]),
            accuracy=accuracy_text(method),
            difference="" if key == CONTROL else str(PairedDifference.of(method["accuracies"], control)),
            seconds=_seconds_text(method["seconds_mean"]),
        )
        for key, method in result["methods"].items()
    ]


def _seconds_text(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds:.3f}"
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}"


def _guarantee(guarantee: dict[str, Any]) -> dict[str, Any]:
    """Return every epsilon of the guarantee as text, under the keys of the result."""
    user, attribute, theorem_1 = guarantee["user_level"], guarantee["attribute_level"], guarantee["theorem_1"]
    return {
        "relations": guarantee["relations"],
        "user_level": {part: epsilon_text(epsilon) for part, epsilon in user.items()},
        "attribute_level": {"features": _span(attribute["features"]), "label": epsilon_text(attribute["label"])},
        "theorem_1": None if theorem_1 is None else epsilon_text(theorem_1),
    }


def _span(epsilons: list[float | str]) -> str:
    """Return the smallest and the largest epsilon; "not private" is larger than every number.

    >>> _span([0.5, 0.25]), _span([0.5, 0.5]), _span([0.5, "not private"])
    ('0.2500 to 0.5000', '0.5000', '0.5000 to not private')
    """
    ordered = sorted(epsilons, key=lambda epsilon: float("inf") if isinstance(epsilon, str) else epsilon)
    if not ordered:
        return "none collected"
    low, high = epsilon_text(ordered[0]), epsilon_text(ordered[-1])
    return low if low == high else f"{low} to {high}"


def _curves(result: dict[str, Any]) -> list[dict[str, str]]:
    num_classes = result["graph"]["classes"]
    return [
        {"name": method_title(key), "svg": learning_curve_plot(key, curves, num_classes=num_classes)}
        for key, curves in result["learning_curves"].items()
    ]


def _frequencies(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not rows:
        return None
    return {
        "svg": frequency_plot(rows),
        "within": sum(within_intervals(rows)),
        "total": len(rows),
        "expected": f"{0.95 * len(rows):.0f}",
        "typical_error": f"{100 * statistics.median(row['standard_error'] for row in rows):.1f}",
    }


def graph_rows(graph: dict[str, Any]) -> list[tuple[str, str]]:
    """Return facts about the graph: titles and values."""
    return [
        ("Nodes", f"{graph['nodes']:,}"),
        ("Edges", f"{graph['edges']:,}"),
        ("Mean degree", f"{graph['mean_degree']:.1f}"),
        ("Features", f"{graph['features']:,}"),
        ("Classes", f"{graph['classes']:,}"),
        ("Share of the largest class", percent(graph["majority_share"])),
    ]


def configuration_rows(configuration: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every setting with its title, in the order of the result; a setting without a title keeps its key."""
    settings: dict[str, Any] = {}
    for key, value in configuration.items():
        settings |= value if isinstance(value, dict) else {key: value}
    return [(_SETTING_TITLES.get(key, key), _setting_text(key, value)) for key, value in settings.items()]


def _setting_text(key: str, value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return "chosen in each fit" if key.endswith("_hops") else "not collected"
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Positions of text and points in the accuracy figure, in pixels.

    Attributes:
        width: width of the figure.
        left: width of the text to the left of the points.
        right: width of the text to the right of the points.
        row: height of the row of each method.
        text: height of the text above the points; 0 where the text is beside them.
    """

    width: int
    left: int
    right: int
    row: int
    text: int

    @property
    def band(self) -> tuple[float, float]:
        """Start and end of the points within a row, as shares of its height."""
        return self.text / self.row, 1.0


WIDE = Layout(width=800, left=226, right=132, row=40, text=0)
"""Layout for a desktop, a README or a paper."""
NARROW = Layout(width=340, left=8, right=8, row=62, text=24)
"""Layout for a phone, where text must not shrink with the page."""


def accuracy_figure(result: dict[str, Any]) -> str:
    """Draw the accuracy of every method as an SVG file, for a README or a slide."""
    return standalone_svg(accuracy_plot(result, WIDE))


def accuracy_plot(result: dict[str, Any], layout: Layout) -> str:
    """Draw seeds, mean and standard deviation of every method, and the share of the largest class as a dotted line."""
    methods, majority = result["methods"], result["graph"]["majority_share"]
    top, bottom = 22, 36
    width, height = layout.width, top + layout.row * len(methods) + bottom
    across = 1 - (layout.left + layout.right) / width

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((layout.left / width, bottom / height, across, 1 - (top + bottom) / height))
        _accuracy_axes(axes, len(methods), _accuracy_limits(methods, majority))
        for y, (key, method) in enumerate(methods.items()):
            _accuracy_labels(axes, y, layout, key, method)
            _accuracy_points(axes, y, layout, key, method)
            _lines_behind(axes, y, layout, majority)
        _majority_label(axes, majority)

    spoken = "; ".join(
        f"{method_title(key)}, {_epsilon_label(method)}: {accuracy_text(method)}" for key, method in methods.items()
    )
    return inline_svg(
        paint,
        width=width,
        height=height,
        name=f"accuracy-{width}",
        label=f"Accuracy by method. {spoken}. Largest class: {percent(majority)}.",
    )


def learning_curve_plot(key: str, curves: Sequence[dict[str, Any]], *, num_classes: int) -> str:
    """Draw validation score above training loss, one line for each seed, with a dot at the selected epoch."""

    def paint(figure: Figure) -> None:
        score, loss = figure.subplots(2, 1, sharex=True)
        figure.subplots_adjust(left=0.17, right=0.97, top=0.92, bottom=0.12, hspace=0.32)
        score.axhline(-math.log(num_classes), color=colour("muted"), linewidth=1, linestyle=(0, (1, 2)))
        _curve_axes(score, "Validation score", curves, "validation_score", colour(key))
        _curve_axes(loss, "Training loss", curves, "train_loss", colour(key))
        loss.set_xlabel("epoch", color=colour("muted"))

    kept = ", ".join(str(curve["selected_epoch"] + 1) for curve in curves)
    return inline_svg(
        paint,
        width=320,
        height=350,
        name=f"curves-{key}",
        label=f"Learning curves of {method_title(key)}, one line for each seed. Epochs kept: {kept}.",
    )


def frequency_plot(frequencies: Sequence[dict[str, Any]]) -> str:
    """Draw estimated over true frequencies with 95 % intervals; diamonds mark intervals that miss the truth."""
    within = within_intervals(frequencies)

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.15, 0.14, 0.83, 0.84))
        axes.grid(visible=True, linewidth=0.6)
        axes.tick_params(length=0)
        axes.plot([0, 1], [0, 1], color=colour("ink"), linewidth=1, linestyle=(0, (4, 3)))
        for inside, name, marker in ((True, "rgnn", "o"), (False, CONTROL, "D")):
            _interval_points(
                axes, [r for r, w in zip(frequencies, within, strict=True) if w is inside], colour(name), marker
            )
        axes.set_xlim(-0.03, 1.03)
        axes.set_xlabel("true frequency", color=colour("muted"))
        axes.set_ylabel("reconstructed frequency", color=colour("muted"))

    return inline_svg(
        paint,
        width=360,
        height=350,
        name="frequencies",
        label=f"Reconstructed over true feature frequencies: {sum(within)} of {len(within)} true frequencies "
        "lie within the 95 % interval around their estimate.",
    )


def within_intervals(frequencies: Sequence[dict[str, Any]]) -> list[bool]:
    """Return whether each true frequency lies within 1.96 standard errors of its estimate.

    >>> within_intervals([{"true": 0.5, "estimated": 0.3, "standard_error": 0.1}])
    [False]
    """
    # An estimate without noise differs from the truth by rounding alone.
    return [abs(row["true"] - row["estimated"]) <= 1.96 * row["standard_error"] + 1e-9 for row in frequencies]


def _accuracy_axes(axes: Axes, rows: int, limits: tuple[float, float]) -> None:
    axes.set_xlim(*limits)
    axes.set_ylim(rows, 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 1):g} %"))
    axes.set_xlabel("accuracy on test nodes; ε at user level (any two records)", color=colour("muted"))


def _accuracy_limits(methods: dict[str, Any], majority: float) -> tuple[float, float]:
    """Return limits that fit every seed, every standard deviation and the share of the largest class."""
    ends = [majority]
    for method in methods.values():
        deviation = method["accuracy_std"] or 0.0
        ends += [*method["accuracies"], method["accuracy_mean"] - deviation, method["accuracy_mean"] + deviation]
    margin = 0.04 * (max(ends) - min(ends)) + 0.01
    return min(ends) - margin, max(ends) + margin


def _accuracy_labels(axes: Axes, y: int, layout: Layout, key: str, method: dict[str, Any]) -> None:
    """Write the method at the left edge of the figure and its accuracy at the right edge."""
    place: dict[str, Any] = {
        "transform": blended_transform_factory(axes.figure.transFigure, axes.transData),
        "va": "center_baseline",
        "fontsize": 12,
    }
    height = y + (0.6 * layout.text / layout.row if layout.text else 0.5)
    axes.text(0.002, height, f"{method_title(key)}, {_epsilon_label(method)}", **place)
    axes.text(0.998, height, accuracy_text(method), ha="right", weight="bold", **place)


def _accuracy_points(axes: Axes, y: int, layout: Layout, key: str, method: dict[str, Any]) -> None:
    start, end = layout.band
    middle, below = y + start + 0.4 * (end - start), y + start + 0.75 * (end - start)
    mean, deviation, seeds = method["accuracy_mean"], method["accuracy_std"], method["accuracies"]
    if deviation is not None:
        axes.plot([mean - deviation, mean + deviation], [middle] * 2, color=colour(key), linewidth=3, alpha=0.45)
    axes.plot(mean, middle, "o", color=colour(key), markersize=9)
    axes.plot(seeds, [below] * len(seeds), "o", color="none", markeredgecolor=colour(key), markersize=5)


def _lines_behind(axes: Axes, y: int, layout: Layout, majority: float) -> None:
    """Draw the grid and the share of the largest class behind the points, but not behind text."""
    start, end = (y + part for part in layout.band)
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    axes.vlines(ticks, start, end, color=colour("grid"), linewidth=0.8, zorder=0)
    axes.vlines(majority, start, end, color=colour("ink"), linewidth=1.2, linestyle=(0, (1, 2)), zorder=1)


def _majority_label(axes: Axes, majority: float) -> None:
    low, high = axes.get_xlim()
    place = (majority - low) / (high - low)
    axes.text(
        majority,
        1.0,
        f"largest class {percent(majority)}",
        transform=axes.get_xaxis_transform() + ScaledTranslation(0, 5 / 72, axes.figure.dpi_scale_trans),
        ha="left" if place < 0.25 else "right" if place > 0.75 else "center",
        color=colour("muted"),
    )


def _epsilon_label(method: dict[str, Any]) -> str:
    epsilon = method["epsilon_user_level"]
    return epsilon if isinstance(epsilon, str) else f"ε = {short_epsilon(epsilon)}"


def _curve_axes(axes: Axes, title: str, curves: Sequence[dict[str, Any]], part: str, paint: str) -> None:
    for curve in curves:
        values, selected = curve[part], curve["selected_epoch"]
        axes.plot(range(1, len(values) + 1), values, color=paint, linewidth=1, alpha=0.6)
        axes.plot(selected + 1, values[selected], "o", color=paint, markersize=5)
    axes.set_title(title, loc="left", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)


def _interval_points(axes: Axes, rows: Sequence[dict[str, Any]], paint: str, marker: str) -> None:
    axes.errorbar(
        [row["true"] for row in rows],
        [row["estimated"] for row in rows],
        yerr=[1.96 * row["standard_error"] for row in rows],
        fmt=marker,
        color=paint,
        markersize=4,
        elinewidth=0.9,
        alpha=0.75,
    )
