"""Figures of the paper drawn from measured results, and overviews of Table 2.

Panels are small enough for a phone; a wider page puts them side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from veilgraph.errors import MissingExtraError
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import short_title
from veilgraph.pages.paired_differences import CONTROL, control_of, datasets_of, find, paired, select
from veilgraph.pages.rendering import Panel, colour, file_name
from veilgraph.pages.result_tables import budget_text, dataset_name
from veilgraph.privacy.estimate import signed_points

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

DATASETS = ("citeseer", "cora", "dblp", "facebook", "german", "student")
EPSILON_X = (1.0, 0.1)
EPSILON_Y = (3.0, 2.0, 1.0, 0.5)
"""Budgets of the 48 settings of the paper. It also ran epsilon_x = 0.01, without publishing accuracies for it."""

_WIDTH = 336
_LINE_COLOURS = ("rgnn", "non_private", "lpgnn", "plain")
_MARKERS = ("o", "s", "^", "D")
_BUDGET_MARKERS = {1.0: "o", 0.1: "s", 0.01: "^"}
_HOPS = (0, 2, 4, 8, 16)
_BACKBONES = (("sage", "GraphSAGE", "rgnn"), ("gcn", "GCN", "plain"), ("gat", "GAT", "lpgnn"))
_VARIANTS = ("", "without LLP", "without f_Y", "without f_X", "without estimation")


def paper_figures(experiment: str, rows: Sequence[Row]) -> list[Panel]:
    """Draw the panels of an experiment that have rows."""
    draw = _FIGURES.get(experiment)
    return draw(rows) if draw else []


# Lines over an axis of a few values.


@dataclass(frozen=True, kw_only=True)
class _Line:
    label: str
    points: Sequence[tuple[float, Row]]
    colour: str
    marker: str = "o"
    dashed: bool = False
    joined: bool = True
    in_legend: bool = True


def _line_panel(
    name: str, title: str, lines: Sequence[_Line], ticks: Sequence[str], axis: str, *, level: Row | None = None
) -> Panel:
    """Draw mean accuracies with standard deviations; `level` is the control of the whole panel."""

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.12, 0.165, 0.865, 0.735))
        if level is not None:
            axes.axhline(100 * level.mean, color=colour(CONTROL), linewidth=1.5, linestyle=(0, (4, 2)), label="control")
        for line in lines:
            _draw_line(axes, line)
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlim(-0.35, len(ticks) - 0.65)
        _quiet_axes(axes, axis)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        entries = sum(line.in_legend for line in lines) + (level is not None)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.12, 1.0),
            ncols=entries if entries <= 4 else 3,
            frameon=False,
            fontsize=10,
            handlelength=1.5,
            handletextpad=0.4,
            columnspacing=0.9,
            borderpad=0.1,
        )

    spoken = "; ".join(
        f"{line.label}: " + ", ".join(f"{ticks[round(x)]}: {100 * row.mean:.1f}" for x, row in line.points)
        for line in lines
    )
    control = f" Control: {100 * level.mean:.1f}." if level is not None else ""
    return Panel(
        name=name,
        title=title,
        paint=paint,
        width=_WIDTH,
        height=250,
        label=f"{title}. Accuracy in percent over {axis}. {spoken}.{control}",
    )


def _draw_line(axes: Axes, line: _Line) -> None:
    xs = [x for x, _ in line.points]
    means = [100 * row.mean for _, row in line.points]
    axes.errorbar(
        xs,
        means,
        yerr=[100 * (row.std or 0.0) for _, row in line.points],
        color=colour(line.colour),
        marker=line.marker,
        markersize=5.5,
        linewidth=1.8,
        linestyle="none" if not line.joined else (0, (4, 2)) if line.dashed else "solid",
        elinewidth=1,
        alpha=0.95,
        label=line.label if line.in_legend else "_nolegend_",
    )


def _quiet_axes(axes: Axes, axis: str) -> None:
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel(axis, color=colour("muted"))


# The choice of GNN.


def _backbones(rows: Sequence[Row]) -> list[Panel]:
    return [panel for x in EPSILON_X if (panel := _backbones_at(rows, x))]


def _backbones_at(rows: Sequence[Row], epsilon_x: float) -> Panel | None:
    ticks = ["∞", *(f"{y:g}" for y in EPSILON_Y)]
    lines: list[_Line] = []
    ceilings: list[_Line] = []
    for key, label, paint in _BACKBONES:
        found = [find(rows, method="rgnn", epsilon_x=epsilon_x, epsilon_y=y, backbone=key) for y in EPSILON_Y]
        points = [(place, row) for place, row in enumerate(found, 1) if row is not None]
        if not points:
            continue
        shift, marker = 0.07 * (len(lines) - 1), _MARKERS[len(lines)]
        lines.append(_Line(label=label, points=[(x + shift, row) for x, row in points], colour=paint, marker=marker))
        if ceiling := find(rows, method="non_private", backbone=key):
            alone, name = [(shift, ceiling)], f"{label} without privacy"
            ceilings.append(_Line(label=name, points=alone, colour=paint, marker=marker, joined=False, in_legend=False))
    if not lines:
        return None
    controls = [(place, find(rows, method=CONTROL, epsilon_y=y)) for place, y in enumerate(EPSILON_Y, 1)]
    if known := [(float(place), row) for place, row in controls if row is not None]:
        lines.append(_Line(label="control", points=known, colour=CONTROL, marker="D", dashed=True))
    dataset = dataset_name(rows[0].dataset)
    title = f"{dataset}, ε_x = {epsilon_x:g}"
    axis = "label budget ε_y; ∞: not private"
    return _line_panel(file_name("fig_backbones", f"x{epsilon_x:g}"), title, [*lines, *ceilings], ticks, axis)


# Hops.


def _hops(rows: Sequence[Row]) -> list[Panel]:
    datasets = datasets_of(rows)
    panels = [_feature_hops(rows, dataset) for dataset in datasets] + [_label_hops(rows, d) for d in datasets]
    return [panel for panel in panels if panel]


def _most_common(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return Counter(known).most_common(1)[0][0] if known else None


def feature_hops_sweep(rows: Sequence[Row], dataset: str, epsilon_x: float) -> dict[int, Row]:
    """Return the rows in which K_x varies at epsilon_y = 1, by K_x; K_y has its most common value."""
    swept = select(rows, dataset=dataset, method="rgnn", epsilon_y=1.0)
    fixed = _most_common(row.swept.get("label_hops") for row in swept)
    chosen = select(swept, epsilon_x=epsilon_x, label_hops=fixed)
    return {row.swept["feature_hops"]: row for row in chosen if "feature_hops" in row.swept}


def label_hops_sweep(rows: Sequence[Row], dataset: str, epsilon_y: float) -> dict[int, Row]:
    """Return the rows in which K_y varies at epsilon_x = 1, by K_y; K_x has its most common value."""
    swept = select(rows, dataset=dataset, method="rgnn", epsilon_x=1.0, epsilon_y=epsilon_y)
    fixed = _most_common(row.swept.get("feature_hops") for row in swept)
    chosen = select(swept, feature_hops=fixed)
    return {row.swept["label_hops"]: row for row in chosen if "label_hops" in row.swept}


def _feature_hops(rows: Sequence[Row], dataset: str) -> Panel | None:
    lines = []
    for place, x in enumerate((1.0, 0.1, 0.01)):
        if sweep := feature_hops_sweep(rows, dataset, x):
            lines.append(_hop_line(f"ε_x = {x:g}", sweep, place))
    if not lines:
        return None
    level = find(rows, dataset=dataset, method=CONTROL, epsilon_y=1.0)
    title = f"K_x on {dataset_name(dataset)}, ε_y = 1"
    return _line_panel(
        file_name("fig_hops", "k_x", dataset),
        title,
        lines,
        [str(k) for k in _HOPS],
        "hops of features, K_x",
        level=level,
    )


def _label_hops(rows: Sequence[Row], dataset: str) -> Panel | None:
    lines = []
    for place, y in enumerate(EPSILON_Y):
        if sweep := label_hops_sweep(rows, dataset, y):
            line = _hop_line(f"ε_y = {y:g}", sweep, place)
            lines.append(line)
            if control := find(rows, dataset=dataset, method=CONTROL, epsilon_y=y):
                point = [(float(len(_HOPS)), control)]
                label = f"control at {line.label}"
                lines.append(
                    _Line(label=label, points=point, colour=line.colour, marker="D", joined=False, in_legend=False)
                )
    if not lines:
        return None
    ticks = [*(str(k) for k in _HOPS), "control"]
    title = f"K_y on {dataset_name(dataset)}, ε_x = 1"
    return _line_panel(file_name("fig_hops", "k_y", dataset), title, lines, ticks, "hops of labels, K_y")


def _hop_line(label: str, sweep: dict[int, Row], place: int) -> _Line:
    points = [(float(_HOPS.index(hops)), row) for hops, row in sorted(sweep.items()) if hops in _HOPS]
    return _Line(label=label, points=points, colour=_LINE_COLOURS[place], marker=_MARKERS[place])


# Weight and number of bags.


def _bags(rows: Sequence[Row]) -> list[Panel]:
    bags = [row for row in select(rows, method="rgnn") if {"llp_weight", "num_clusters"} <= set(row.swept)]
    if not bags:
        return []
    weights = sorted({row.swept["llp_weight"] for row in bags})
    numbers = sorted({row.swept["num_clusters"] for row in bags})
    control = control_of(bags[0], rows)
    best = max(bags, key=lambda row: row.mean)
    low, high = min(row.mean for row in bags), best.mean
    title = f"{dataset_name(bags[0].dataset)}, {budget_text(bags[0])}"

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.13, 0.13, 0.86, 0.76))
        for row in bags:
            x, y = weights.index(row.swept["llp_weight"]), numbers.index(row.swept["num_clusters"])
            strength = 0.06 + 0.5 * (row.mean - low) / max(high - low, 1e-9)
            box = Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=colour("rgnn"), alpha=strength, linewidth=0)
            axes.add_patch(box)
            axes.text(x, y, f"{100 * row.mean:.1f}", ha="center", va="center_baseline", fontsize=12)
            if row is best:
                frame = Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, facecolor="none", edgecolor=colour("ink"))
                axes.add_patch(frame)
        axes.set_xlim(-0.5, len(weights) - 0.5)
        axes.set_ylim(-0.5, len(numbers) - 0.5)
        axes.set_xticks(range(len(weights)), [f"{weight:g}" for weight in weights])
        axes.set_yticks(range(len(numbers)), [f"{number:g}" for number in numbers])
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlabel("weight of the bags, α", color=colour("muted"))
        axes.set_ylabel("number of bags, C", color=colour("muted"))
        if control is not None:
            figure.text(0.13, 0.93, f"control: {100 * control.mean:.1f}", color=colour(CONTROL), weight="bold")

    spoken = "; ".join(
        f"α = {r.swept['llp_weight']:g}, C = {r.swept['num_clusters']:g}: {100 * r.mean:.1f}" for r in bags
    )
    beside = "" if control is None else f" Control: {100 * control.mean:.1f}."
    label = f"Accuracy in percent by weight and number of bags. {spoken}.{beside}"
    return [Panel(name="fig_alpha_clusters", title=title, paint=paint, width=_WIDTH, height=320, label=label)]


# The ablation.


def _ablation(rows: Sequence[Row]) -> list[Panel]:
    return [_ablation_on(rows, dataset) for dataset in datasets_of(select(rows, method="rgnn"))]


def _ablation_on(rows: Sequence[Row], dataset: str) -> Panel:
    own = select(rows, dataset=dataset, method="rgnn")
    order = [*_VARIANTS, *sorted({row.variant for row in own} - set(_VARIANTS))]
    bars = sorted(own, key=lambda row: order.index(row.variant))
    control = control_of(bars[0], rows)
    height = 64 + 34 * len(bars)

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.36, 40 / height, 0.61, 1 - 64 / height))
        for y, row in enumerate(bars):
            axes.barh(y, 100 * row.mean, height=0.62, color=colour("rgnn"), alpha=0.55 if row.variant else 0.9)
            if row.std is not None:
                ends = [100 * (row.mean - row.std), 100 * (row.mean + row.std)]
                axes.plot(ends, [y, y], color=colour("ink"), linewidth=1.2)
            if row.published_mean is not None:
                axes.plot(
                    100 * row.published_mean, y, "D", color=colour("card"), markeredgecolor=colour("ink"), markersize=7
                )
        if control is not None:
            axes.axvline(100 * control.mean, color=colour(CONTROL), linewidth=1.5, linestyle=(0, (4, 2)))
            axes.text(
                100 * control.mean,
                -0.62,
                f"control {100 * control.mean:.1f}",
                color=colour(CONTROL),
                ha="right" if 100 * control.mean > 0.6 * axes.get_xlim()[1] else "center",
                va="bottom",
                fontsize=10,
            )
        axes.set_yticks(range(len(bars)), [row.variant or "RGNN" for row in bars], color=colour("ink"))
        axes.set_ylim(len(bars) - 0.45, -0.55)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(length=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("accuracy in percent", color=colour("muted"))

    spoken = "; ".join(f"{row.variant or 'RGNN'}: {100 * row.mean:.1f}{_published_text(row)}" for row in bars)
    beside = "" if control is None else f" Control: {100 * control.mean:.1f}."
    title = f"{dataset_name(dataset)}, {budget_text(bars[0])}"
    name = file_name("ablation", dataset)
    label = f"Ablation on {title}. Accuracy in percent. {spoken}.{beside}"
    return Panel(name=name, title=title, paint=paint, width=_WIDTH, height=height, label=label)


def _published_text(row: Row) -> str:
    return "" if row.published_mean is None else f", published {100 * row.published_mean:.1f}"


# Table 2 at a glance.


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A difference in one setting: its row, its mean, and whether it is beyond noise."""

    row: Row
    difference: float
    clear: bool


def _table2(rows: Sequence[Row]) -> list[Panel]:
    published = {
        method: [
            Dot(row=row, difference=row.mean - row.published_mean, clear=row.within_noise is False)
            for row in select(rows, method=method)
            if row.published_mean is not None
        ]
        for method in ("rgnn", "lpgnn", "graphsage")
    }
    ends = [dot.difference for dots in published.values() for dot in dots]
    panels = [
        dot_panel(f"table2-{method}", f"{short_title(method)}: measured minus published", dots, method, ends)
        for method, dots in published.items()
        if dots
    ]
    against = []
    for row in select(rows, method="rgnn"):
        control = control_of(row, rows)
        if control is not None and (difference := paired(row, control)) is not None:
            against.append(Dot(row=row, difference=difference.mean, clear=difference.clear))
    if against:
        own_ends = [dot.difference for dot in against]
        panels.insert(0, dot_panel("table2-control", "RGNN minus control", against, "rgnn", own_ends))
    return panels


def dot_panel(name: str, title: str, dots: Sequence[Dot], method: str, ends: Sequence[float]) -> Panel:
    """Draw a band for each data set, and in it a row for each epsilon_y, the largest at the top."""
    present = {dot.row.dataset for dot in dots}
    datasets = [*(d for d in DATASETS if d in present), *sorted(present - set(DATASETS))]
    budgets = sorted({dot.row.epsilon_y or 0.0 for dot in dots}, reverse=True)
    paint_with = colour(method if method in ("rgnn", "lpgnn", "veil") else "plain")
    height = 44 + 46 * len(datasets)

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.205, 38 / height, 0.78, 1 - 44 / height))
        for band in range(1, len(datasets)):
            axes.axhline(band, color=colour("grid"), linewidth=0.8)
        axes.axvline(0, color=colour("ink"), linewidth=1)
        for dot in dots:
            step = (budgets.index(dot.row.epsilon_y or 0.0) + 1) / (len(budgets) + 1)
            axes.plot(
                100 * dot.difference,
                datasets.index(dot.row.dataset) + step,
                _BUDGET_MARKERS.get(dot.row.epsilon_x or 0.0, "o"),
                color=paint_with if dot.clear else "none",
                markeredgecolor=paint_with,
                markersize=5.5,
                alpha=0.9,
            )
        margin = 0.06 * (max(*ends, 0) - min(*ends, 0)) + 0.005
        axes.set_xlim(100 * (min(*ends, 0) - margin), 100 * (max(*ends, 0) + margin))
        axes.set_ylim(len(datasets), 0)
        axes.set_yticks([place + 0.5 for place in range(len(datasets))], [dataset_name(d) for d in datasets])
        axes.tick_params(length=0)
        axes.tick_params(axis="y", labelcolor=colour("ink"))
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda points, _: f"{points:+g}".replace("-", "−") if points else "0")
        )
        axes.set_xlabel("percentage points", color=colour("muted"))

    spoken = "; ".join(
        f"{dataset_name(d)}: {signed_points(min(own))} to {signed_points(max(own))}"
        for d in datasets
        if (own := [dot.difference for dot in dots if dot.row.dataset == d])
    )
    clear = sum(dot.clear for dot in dots)
    label = f"{title}, in percentage points. {spoken}. {clear} of {len(dots)} differences are beyond noise."
    return Panel(name=name, title=title, paint=paint, width=_WIDTH, height=height, label=label)


_FIGURES: dict[str, Callable[[Sequence[Row]], list[Panel]]] = {
    "ablation": _ablation,
    "fig_alpha_clusters": _bags,
    "fig_backbones": _backbones,
    "fig_hops": _hops,
    "table2": _table2,
}
