"""Dot plot of the shares of classes with their intervals, group by group."""

from __future__ import annotations

from itertools import groupby

from veilgraph.deploy.group_shares import GroupShares, Share
from veilgraph.errors import MissingExtraError
from veilgraph.pages.formatting import percent
from veilgraph.pages.rendering import colour, inline_svg

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

_WIDTH, _ROW, _HEAD, _FOOT = 640, 20, 30, 46
_PALETTE = ("rgnn", "veil", "non_private", "structure_only", "lpgnn", "plain")
_MAX_CLASSES = 6
"""Classes that are drawn at most, the largest ones: more are in the table."""


def share_plot(found: GroupShares, question: str) -> str:
    """Draw each share as a dot, its interval as a thick line, and the one that holds with all others as a thin line.

    Of two classes the second alone is drawn, since the first is the rest. Of more than six, the largest are drawn.

    Args:
        found: the shares, of one group at least.
        question: what was asked.
    """
    drawn = _drawn(found)
    groups = [list(rows) for _, rows in groupby(drawn, key=lambda share: share.group)]
    classes = list(dict.fromkeys(share.name for share in drawn))
    heights = [_ROW * max(1, len(rows)) for rows in groups]
    height = _HEAD + _FOOT + sum(heights) + _ROW * len(groups) // 2

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.27, _FOOT / height, 0.70, 1 - (_FOOT + _HEAD) / height))
        place, ticks = 0.0, []
        for rows in groups:
            ticks.append(place + (len(rows) - 1) / 2)
            for share in rows:
                _paint_share(figure, share, place, colour(_PALETTE[classes.index(share.name) % len(_PALETTE)]))
                place += 1
            place += 0.5
        axes.set_ylim(place - 0.8, -0.7)
        axes.set_xlim(-1, 101)
        axes.set_yticks(ticks, [_name(rows[0]) for rows in groups])
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.set_xlabel(
            f"share of the people, %; {found.level:.0%} intervals, thin: all at once", color=colour("muted")
        )
        for number, name in enumerate(classes):
            text = f"● {name}"
            axes.annotate(
                text,
                (number / max(len(classes), 2), 1),
                xytext=(0, 10),
                xycoords="axes fraction",
                textcoords="offset points",
                color=colour(_PALETTE[number % len(_PALETTE)]),
            )

    spoken = "; ".join(
        f"{_name(s)}, {s.name}: {percent(s.value)}, {percent(s.low)} to {percent(s.high)}" for s in drawn
    )
    return inline_svg(paint, width=_WIDTH, height=height, name="shares", label=f"{question}. {spoken}.")


def _paint_share(figure: Figure, share: Share, place: float, shade: str) -> None:
    (axes,) = figure.axes
    for low, high, width in ((share.low_together, share.high_together, 1.2), (share.low, share.high, 4.5)):
        axes.plot(
            [100 * low, 100 * high], [place, place], color=shade, linewidth=width, alpha=0.5, solid_capstyle="butt"
        )
    axes.plot([100 * share.value], [place], color=shade, marker="o", markersize=6)


def _drawn(found: GroupShares) -> list[Share]:
    """Return the shares that are drawn, in the order of the groups."""
    first = [share for share in found.told if share.group == found.told[0].group]
    classes = {share.name for share in sorted(first, key=lambda share: -share.value)[:_MAX_CLASSES]}
    return [share for share in found.told if share.name in classes]


def _name(share: Share) -> str:
    return "all people" if share.group is None else share.group
