"""Figures of an experiment of the reader's own: curves with bands over epsilon or a parameter, or bars of methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veilgraph.errors import MissingExtraError
from veilgraph.experiments.results import Row
from veilgraph.pages.epsilon_axis import (
    EPSILON_AXIS,
    Band,
    draw_accuracy_axis,
    draw_band,
    draw_epsilon_axis,
    draw_level,
    in_words,
)
from veilgraph.pages.formatting import short_title
from veilgraph.pages.paired_differences import CONTROL, control_of, datasets_of, select
from veilgraph.pages.rendering import PALETTE, Panel, colour, file_name
from veilgraph.pages.result_tables import dataset_name, setting_text, varied_parameters

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

_WIDTH = 460
_MARKERS = "os^Dv<>P"
_LINES: tuple[tuple[int, tuple[int, ...]] | str, ...] = ("solid", (0, (4, 2)), (0, (1, 2)), (0, (6, 2, 1, 2)))
_MOST_TICKS = 9
_OTHER_COLOURS = [name for name in PALETTE if name not in ("ink", "muted", "grid", "card", "refuted")]


def own_figures(name: str, rows: Sequence[Row]) -> list[Panel]:
    """Draw a panel for each data set: accuracy over the parameter that varies, or over epsilon, or of each method.

    Where a numeric parameter varies, each budget has a panel, and the control is a level in it.

    Args:
        name: name of the experiment.
        rows: its results.
    """
    varied = [key for key in varied_parameters(rows) if len(_numbers(rows, key)) > 1]
    panels = []
    for dataset in datasets_of(rows):
        own = select(rows, dataset=dataset)
        if varied:
            panels += [_over_parameter(name, group, varied[0], own) for group in _by_budget(own, varied[0])]
        elif any(len(line) > 1 for line in _lines(own, _epsilon).values()):
            panels.append(_over_epsilon(name, own))
        else:
            panels.append(_bars(name, own))
    return panels


def _numbers(rows: Sequence[Row], key: str) -> list[float]:
    found = {value for row in rows if isinstance(value := row.swept.get(key), int | float)}
    return sorted(found)


def _by_budget(rows: Sequence[Row], key: str) -> list[list[Row]]:
    groups: dict[tuple[float | None, float | None], list[Row]] = {}
    for row in rows:
        if isinstance(row.swept.get(key), int | float):
            groups.setdefault((row.epsilon_x, row.epsilon_y), []).append(row)
    return list(groups.values())


def _epsilon(row: Row) -> float | None:
    return row.epsilon_user_level if isinstance(row.epsilon_user_level, int | float) else None


def _lines(
    rows: Sequence[Row], place: Callable[[Row], float | None], axis: str = ""
) -> dict[str, list[tuple[float, Row]]]:
    """Return the points of each line by its name: method, variant, label mechanism and varied parameters."""
    shown = [key for key in varied_parameters(rows) if key != axis]
    mechanisms = {row.label_mechanism for row in rows if row.epsilon_y is not None}
    lines: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        if (at := place(row)) is None:
            continue
        mechanism = f"{row.label_mechanism} labels" if len(mechanisms) > 1 else ""
        setting = setting_text({key: row.swept.get(key) for key in shown})
        label = ", ".join(filter(None, [f"{short_title(row.method)} {row.variant}".strip(), mechanism, setting]))
        lines.setdefault(label, []).append((at, row))
    return {label: sorted(points, key=lambda point: point[0]) for label, points in lines.items()}


def _bands(lines: dict[str, list[tuple[float, Row]]]) -> list[Band]:
    """Return a band for each line; methods have their own colour, and lines of one method differ in their dashes."""
    paints: dict[str, str] = {}
    bands: list[Band] = []
    for points in lines.values():
        free = [name for name in _OTHER_COLOURS if name not in paints.values()]
        method = points[0][1].method
        paints.setdefault(method, method if method in free else (free or _OTHER_COLOURS)[0])
    for number, (label, points) in enumerate(lines.items()):
        paint = paints[points[0][1].method]
        dashes = _LINES[sum(band.colour == paint for band in bands) % len(_LINES)]
        bands.append(
            Band(label=label, points=points, colour=paint, marker=_MARKERS[number % len(_MARKERS)], line=dashes)
        )
    return bands


def _over_epsilon(name: str, rows: Sequence[Row]) -> Panel:
    bands = _bands(_lines(rows, _epsilon))
    totals = sorted({total for band in bands for total, _ in band.points})
    ticks = totals[:: -(-len(totals) // _MOST_TICKS)]
    levels = {short_title(row.method): row for row in rows if row.epsilon_y is None}
    dataset = dataset_name(rows[0].dataset)
    return _curves(file_name(name, dataset), dataset, bands, levels, (EPSILON_AXIS, ticks, None))


def _over_parameter(name: str, rows: Sequence[Row], key: str, all_rows: Sequence[Row]) -> Panel:
    values = _numbers(rows, key)
    bands = _bands(_lines(rows, lambda row: float(values.index(row.swept[key])), key))
    control = control_of(rows[0], all_rows)
    levels = {} if control is None else {short_title(CONTROL): control}
    dataset, budgets = dataset_name(rows[0].dataset), {"epsilon_x": rows[0].epsilon_x, "epsilon_y": rows[0].epsilon_y}
    title = ", ".join(filter(None, [dataset, setting_text(budgets)]))
    stem = file_name(name, dataset, *(f"{each[-1]}{value:g}" for each, value in budgets.items() if value is not None))
    axis = setting_text({key: 0}).partition(" = ")[0]
    return _curves(stem, title, bands, levels, (axis, range(len(values)), [f"{value:g}" for value in values]))


def _curves(
    name: str,
    title: str,
    bands: Sequence[Band],
    levels: dict[str, Row],
    axis: tuple[str, Sequence[float], list[str] | None],
) -> Panel:
    """Draw bands and levels; the axis has a title, its ticks, and their names where it is not one of epsilon."""
    label, ticks, names = axis
    legend = 18 * -(-(len(bands) + len(levels)) // 2)
    height = 260 + legend

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.085, 40 / height, 0.9, 1 - (legend + 52) / height))
        for band in bands:
            draw_band(axes, band)
        for each, row in levels.items():
            draw_level(axes, row.mean, label=each, paint=row.method if row.method in PALETTE else "non_private")
        if names is None:
            draw_epsilon_axis(axes, ticks)
        else:
            draw_accuracy_axis(axes)
            axes.set_xlim(-0.2, len(names) - 0.8)
            axes.set_xticks(list(ticks), names)
        axes.set_xlabel(label, color=colour("muted"))
        figure.legend(loc="upper left", ncols=2, frameon=False, fontsize=10, handlelength=2.2, borderaxespad=0.1)

    spoken = [
        *(in_words(band, names) for band in bands),
        *(f"{each}: {100 * row.mean:.1f}" for each, row in levels.items()),
    ]
    words = f"{title}. Accuracy in percent over {label}. {'; '.join(spoken)}."
    return Panel(name=name, title=title, paint=paint, width=_WIDTH, height=height, label=words)


def _bars(name: str, rows: Sequence[Row]) -> Panel:
    """Draw a bar for each method, with one standard deviation to each side."""
    bars = [(label, row) for label, points in _lines(rows, lambda row: 0.0).items() for _, row in points]
    height = 56 + 34 * len(bars)

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.36, 40 / height, 0.61, 1 - 48 / height))
        for y, (_, row) in enumerate(bars):
            paint_with = colour(row.method if row.method in PALETTE else "plain")
            spread = 100 * (row.std or 0.0)
            axes.barh(y, 100 * row.mean, xerr=spread, height=0.62, color=paint_with, alpha=0.8, ecolor=colour("ink"))
        axes.set_yticks(range(len(bars)), [label for label, _ in bars], color=colour("ink"))
        axes.set_ylim(len(bars) - 0.45, -0.55)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.tick_params(length=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("accuracy in percent", color=colour("muted"))

    title = dataset_name(rows[0].dataset)
    spoken = "; ".join(f"{label}: {100 * row.mean:.1f}" for label, row in bars)
    words = f"{title}. Accuracy in percent. {spoken}."
    return Panel(name=file_name(name, title), title=title, paint=paint, width=_WIDTH, height=height, label=words)
