"""The card of a model as a page: a single HTML file that needs no network, and looks right on paper.

What it says about edges depends on what the server holds: a public graph, answers about neighbours, or pairs who name
each other (`PublicEdges` and the classes below it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.assessment import hundred_in_words, parts_in_words
from veilgraph.deploy.group_shares import GroupShares
from veilgraph.deploy.model_folder import CARD_PAGE
from veilgraph.errors import MissingExtraError
from veilgraph.pages.formatting import label_report_in_words, method_title, percent, unbroken
from veilgraph.pages.rendering import colour, inline_svg, render_template
from veilgraph.pages.share_plot import share_plot
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.plain_text import counted

_PRIVATE = "Neighbours are private: nothing about them but randomized answers left a device."


class PublicEdges:
    """Words about a public graph."""

    source = " and the public graph"
    protection = "Edges are taken as public: the guarantee does not protect who is linked to whom."
    read = "with the graph"
    compared = (
        "The control reads randomized labels and the graph, and no features: a method that does not beat it has "
        "learned nothing from the rest."
    )
    judges = ""
    helpful = True
    """Whether the card says whose reports would help."""

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return facts about reports besides labels: titles and values."""
        return [("Feature reports", f"{reports['features']:,}"), ("Public graph", f"{people:,} nodes, {edges:,} edges")]


class MutualPairs(PublicEdges):
    """Words about pairs who name each other in randomized lists."""

    source = ""
    protection = _PRIVATE
    read = "with the graph of people who name each other in randomized lists"
    certainty = " for certain"

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return facts about reports besides labels: titles and values."""
        return [*self.answers(reports, people), ("Pairs who name each other", f"{edges:,}, true or by chance")]

    def answers(self, reports: Mapping[str, Any], people: int) -> list[tuple[str, str]]:
        """Return the answers and the people: titles and values."""
        return [
            ("Answers about neighbours", f"{reports['total'] - reports['label']:,}"),
            ("People", f"{people:,}; nobody else knows their neighbours{self.certainty}"),
        ]


class HiddenEdges(MutualPairs):
    """Words about answers in waves, from which nobody makes an edge."""

    read = "with randomized answers about neighbours and no edge"
    compared = (
        "The largest class is all that is known of a person without neighbours and without their own report: a method "
        "that does not beat it has learned nothing from the answers. The structure-only control of other cards is left "
        "out: it propagates labels over edges, and nobody has one here."
    )
    judges = (
        "One in ten label reports is in no published table, so that no answer repeats it. These judge predictions "
        "that were made without them"
    )
    helpful = False
    certainty = ""

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return facts about reports besides labels: titles and values."""
        return self.answers(reports, people)


def edges_of(card: Mapping[str, Any]) -> PublicEdges:
    """Return the words about the edges of a card."""
    if "neighbours" not in card["guarantee"]:
        return PublicEdges()
    return MutualPairs() if card["graph"]["edges"] else HiddenEdges()


try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

_WIDTH, _HEIGHT = 460, 320
_JUDGES = {
    "out of fold": "Each report judges a prediction that was made without it and the others of its fold",
    "held out": "These labels were held out: they took no part in the training",
}


def write_card_page(content: dict[str, Any], folder: Path) -> Path:
    """Write the page of a card into the folder of its model and return its path.

    Args:
        content: the card, as `card.json` holds it.
        folder: folder of the model.
    """
    path = folder / CARD_PAGE
    write_atomically(path, render_card_page(content))
    return path


def render_card_page(content: dict[str, Any]) -> str:
    """Render the page of a card."""
    return render_template(
        "model_card.html",
        card=content,
        edges=edges_of(content),
        method=method_title(content["method"]),
        reads="labels and features" if content["reports"]["features"] else "labels alone",
        headline=headline(content),
        summary=summary(content),
        judges=edges_of(content).judges or _JUDGES.get(content["judged_by"], ""),
        collection=collection_rows(content),
        label_report=label_report_in_words(content["label_report"]),
        shares=share_rows(content),
        shares_figure=share_figure(content),
        accuracy=accuracy_plot(content) if content["accuracy"]["model"] else None,
        accuracy_rows=accuracy_rows(content),
        calibration=calibration_plot(content) if content["calibration"] else None,
        classes=class_rows(content),
        sets=sets_plot(content) if content["sets"] else None,
        set_sentences=set_sentences(content),
        curve=curve_plot(content) if _points(content) else None,
        curve_sentences=curve_sentences(content),
        percent=percent,
        share=share_text,
        uncertain=content["uncertain"],
    )


def headline(content: dict[str, Any]) -> str:
    """Return the estimated accuracy in one sentence, or that there is none."""
    found = content["accuracy"]["model"]
    if found is None:
        return "How often predictions are right could not be estimated."
    return (
        f"Without a person's own report, the prediction is right for {_about(found)} of the people "
        f"({interval_text(found)})."
    )


def summary(content: dict[str, Any]) -> list[str]:
    """Return the control, the largest class, features, the own report and the certain answers, in sentences."""
    found, sentences = content["accuracy"], []
    if found["model"] is None:
        reason = (
            f"{method_title(content['method'])} cannot predict a person without their own report."
            if content["reports"]["total"]
            else "No process held all reports of this training, so that no report was left out to judge by."
        )
        return [f"{reason} Labels that are held out judge any method: train again with --set hold_out=0.2."]
    if found["control"] is not None:
        words = f"The control, which reads the same labels and no features, reaches {share_text(found['control'])}"
        if found["difference"] is not None:
            words += f"; the difference is {_points_text(found['difference'])}"
        sentences.append(words + ".")
    if (floor := found["floor"]) is not None:
        words = f"The largest class, given for everybody, reaches {share_text(floor)}"
        if found["control"] is None:
            words += f"; the difference is {_points_text(found['difference'])}"
        sentences.append(words + ".")
    sentences += parts_in_words(found)
    if found["own_report"] is not None:
        own = found["own_report"]
        sentences.append(f"Where a person's own report is used too, it is {share_text(own)}.")
    if (certain := content["certain"]) is not None and certain["accuracy"]["value"] is not None:
        sentences.append(
            f"Answers with a probability of {certain['from']:g} or more: {percent(certain['share'])} of the people, "
            f"right for {point_text(certain['accuracy'])} of them ({interval_text(certain['accuracy'])})."
        )
    stated, model = found["stated"], found["model"]
    if stated is not None and not model["low"] <= stated <= model["high"]:
        fault = "too sure" if stated > model["high"] else "too cautious"
        sentences.append(
            f"The model states {percent(stated)} of itself, outside the interval: its probabilities are {fault}."
        )
    return sentences


def point_text(estimate: dict[str, Any]) -> str:
    """Return the share of an estimate as text that stays on one line."""
    return unbroken(Estimate(**estimate).point)


def interval_text(estimate: dict[str, Any]) -> str:
    """Return an interval of shares as text.

    >>> interval_text({"value": 0.55, "low": 0.5, "high": 0.625, "reports": 90}).split()
    ['50.0', 'to', '62.5', '%']
    """
    return unbroken(Estimate(**estimate).interval)


def share_text(estimate: dict[str, Any]) -> str:
    """Return the share of an estimate with its interval."""
    return f"{point_text(estimate)} ({interval_text(estimate)})"


def _about(estimate: dict[str, Any]) -> str:
    return point_text(estimate) if Estimate(**estimate).at_edge else f"about {point_text(estimate)}"


def _points_text(difference: dict[str, Any]) -> str:
    return Estimate(**difference).points


def collection_rows(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return facts about the collection: titles and values."""
    campaign, reports, graph = content["campaign"], content["reports"], content["graph"]
    rows = [
        ("Purpose", campaign["purpose"]),
        ("Contact", campaign["contact"]),
        ("Label", f"{campaign['label']}: {', '.join(campaign['classes'])}"),
        ("Features", f"{campaign['features']:,}" if campaign["features"] else "none"),
        (
            "Label reports",
            f"{reports['label']:,}" + (f", and {reports['held_out']:,} held out" if reports["held_out"] else ""),
        ),
        *edges_of(content).rows(reports, graph["nodes"], graph["edges"]),
        *([("Known about links", graph["links"])] if graph["links"] else []),
        ("Campaign", campaign["id"]),
        (f"SHA-256 of the {'reports' if reports['sha256'] else 'shards'}", reports["sha256"] or reports["shards"]),
        ("Card made", content["made"]),
    ]
    since = content["withdrawn_since"]
    return [*rows, ("Withdrawn since the training", "not counted" if since is None else f"{since:,}")]


def accuracy_rows(content: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of the table of accuracies."""
    found = content["accuracy"]
    rows = [
        {"name": name, "value": point_text(found[key]), "interval": interval_text(found[key])}
        for key, name in _accuracies(content).items()
    ]
    if rows and found["stated"] is not None:
        stated = percent(found["stated"])
        rows.append({"name": "What the model states itself: its mean probability", "value": stated, "interval": "–"})
    return rows


def _accuracies(content: dict[str, Any]) -> dict[str, str]:
    names = {
        "model": f"{method_title(content['method'])}, own report not used",
        "own_report": f"{method_title(content['method'])}, own report used",
        "control": "Control, own report not used",
        "without_features": f"{method_title(content['method'])} without features, own report not used",
        "without_public": f"{method_title(content['method'])} without public columns, own report not used",
        "without_links": f"{method_title(content['method'])} without what is known about links, own report not used",
        "floor": "The largest class, given for everybody",
    }
    return {key: name for key, name in names.items() if content["accuracy"].get(key) is not None}


def class_rows(content: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of the table of classes."""
    return [
        {"name": row["name"], "predicted": percent(row["predicted"])}
        | {key: point_text(row[key]) for key in _CLASS_ESTIMATES}
        | {f"{key}_interval": interval_text(row[key]) for key in _CLASS_ESTIMATES}
        for row in content["by_class"] or ()
    ]


def share_rows(content: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of the table of shares, one for each class; none where nothing is said."""
    if content["shares"] is None:
        return []
    return [
        {
            "name": share.name,
            "value": percent(share.value),
            "interval": f"{percent(share.low)} to {percent(share.high)}",
            "reporters": f"{percent(share.low_reporters)} to {percent(share.high_reporters)}",
        }
        for share in GroupShares.parse(content["shares"]).shares
    ]


def share_figure(content: dict[str, Any]) -> str | None:
    """Draw the shares of all people; None where nothing is said."""
    if not share_rows(content):
        return None
    return share_plot(GroupShares.parse(content["shares"]), content["campaign"]["label"])


_CLASS_ESTIMATES = ("precision", "recall")


def set_sentences(content: dict[str, Any]) -> list[str]:
    """Return how large sets of classes are."""
    if (sets := content["sets"]) is None:
        return []
    sentences = [
        f"A set of classes that holds the true one for {100 * sets['coverage']:.0f} % of the people has on average:"
    ]
    sentences += [
        f"{group['mean_size']:.2f} of {sets['classes']} classes for the {group['people']:,} people {_GROUPS[name]}, "
        f"and one class for {percent(group['sizes'][1] / group['people'])} of them."
        for name, group in sets["groups"].items()
    ]
    if (single := sets["single"]) is not None and single["accuracy"]["value"] is not None:
        sentences.append(
            f"Without their own report {percent(single['share'])} of the people who reported have a set with one "
            f"class, which is the true one for {share_text(single['accuracy'])}."
        )
    if sets["unknown"]:
        sentences.append(
            f"Of {counted(sets['unknown'], 'person', 'people')} nothing is known, as no path of links joins them "
            "to a report: the set has all classes, and no figure here is about them."
        )
    return sentences


_GROUPS = {"reported": "who reported a label", "silent": "who did not"}


def _points(content: dict[str, Any]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = (content["learning_curve"] or {"points": []})["points"]
    return points


def curve_sentences(content: dict[str, Any]) -> list[str]:
    """Return sentences about the learning curve and its limits."""
    points = _points(content)
    if not points:
        return []
    half = next((point for point in points if point["share"] == 1 / 2), points[-2])
    gain = half["gain"]
    words = f"From {percent(half['share'])} of the reports to all of them, the accuracy rose by {_points_text(gain)}."
    hundred = content["learning_curve"]["next_hundred"]
    return [
        words,
        *([] if hundred is None else [hundred_in_words(Estimate(**hundred))]),
        "The curve ends where the reports end. In simulations a next doubling of the reports"
        " seldom brought more than the upper end of what the last one brought.",
        "Points share their reports, so the differences between them are known better than the band suggests."
        " Each subsample is one random draw; how draws differ is not in the band.",
    ]


def accuracy_plot(content: dict[str, Any]) -> str:
    """Draw each accuracy with its interval."""
    names, found = _accuracies(content), content["accuracy"]
    height = 44 * len(names) + 56

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.03, 42 / height, 0.94, 1 - 48 / height))
        ends = [end for key in names for end in (found[key]["low"], found[key]["high"])]
        for row, (key, name) in enumerate(names.items()):
            paint_colour = colour("structure_only" if key in ("control", "floor") else content["method"])
            value, low, high = (100 * found[key][part] for part in ("value", "low", "high"))
            axes.plot([low, high], [row, row], color=paint_colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
            axes.plot([value], [row], color=paint_colour, marker="o", markersize=8)
            axes.text(0, row - 0.32, name, transform=axes.get_yaxis_transform(), fontsize=11)
        axes.set_ylim(len(names) - 0.6, -0.75)
        margin = max(2.0, 10 * (max(ends) - min(ends)))
        axes.set_xlim(max(0, 100 * min(ends) - margin), min(100.5, 100 * max(ends) + margin))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.set_xlabel("estimated accuracy, %", color=colour("muted"))

    spoken = "; ".join(f"{name}: {point_text(found[key])}, {interval_text(found[key])}" for key, name in names.items())
    return inline_svg(paint, width=_WIDTH, height=height, name="accuracy", label=f"Estimated accuracy. {spoken}.")


def calibration_plot(content: dict[str, Any]) -> str:
    """Draw stated probabilities against estimated shares of right predictions."""
    bins = content["calibration"]

    def paint(figure: Figure) -> None:
        axes = _percent_axes(figure)
        axes.plot([0, 100], [0, 100], color=colour("muted"), linewidth=1.2, linestyle=(0, (1, 2)))
        _error_bars(axes, [each["stated"] for each in bins], [each["found"] for each in bins], content["method"])
        lowest = min(min(each["stated"], each["found"]["low"]) for each in bins)
        axes.set_xlim(max(0, 100 * lowest - 4), 101)
        axes.set_ylim(max(0, 100 * lowest - 4), 101)
        axes.set_xlabel("probability that the model states, %", color=colour("muted"))
        axes.set_ylabel("right predictions, %", color=colour("muted"))

    spoken = "; ".join(f"stated {percent(each['stated'])}: {interval_text(each['found'])} right" for each in bins)
    return inline_svg(paint, width=_WIDTH, height=_HEIGHT, name="calibration", label=f"Calibration. {spoken}.")


def sets_plot(content: dict[str, Any]) -> str:
    """Draw how many people have sets of each size, with and without a report."""
    groups = content["sets"]["groups"]
    largest = max(size for group in groups.values() for size, people in enumerate(group["sizes"]) if people)

    def paint(figure: Figure) -> None:
        axes = _percent_axes(figure)
        width = 0.8 / len(groups)
        for number, (name, group) in enumerate(groups.items()):
            places = [size + (number - (len(groups) - 1) / 2) * width for size in range(1, largest + 1)]
            shares = [100 * group["sizes"][size] / group["people"] for size in range(1, largest + 1)]
            axes.bar(
                places,
                shares,
                width=width,
                color=colour(content["method"] if name == "reported" else "rgnn"),
                alpha=0.85,
                label=f"people {_GROUPS[name]}",
            )
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5]))
        axes.set_xlim(0.4, max(largest, 3) + 0.6)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("classes in the set", color=colour("muted"))
        axes.set_ylabel("people, %", color=colour("muted"))
        axes.legend(frameon=False, fontsize=10, labelcolor=colour("ink"))

    spoken = " ".join(set_sentences(content))
    return inline_svg(paint, width=_WIDTH, height=_HEIGHT, name="sets", label=spoken)


def curve_plot(content: dict[str, Any]) -> str:
    """Draw the estimated accuracy over the number of reports, with its band, and what the model states."""
    points = _points(content)

    def paint(figure: Figure) -> None:
        axes = _percent_axes(figure)
        reports = [point["learned_from"] for point in points]
        found, paint_colour = [point["accuracy"] for point in points], colour(content["method"])
        low, high = ([100 * each[end] for each in found] for end in ("low", "high"))
        axes.fill_between(reports, low, high, color=paint_colour, alpha=0.16, linewidth=0)
        axes.plot(reports, [100 * each["value"] for each in found], color=paint_colour, marker="o", label="estimated")
        axes.plot(
            reports,
            [100 * point["stated"] for point in points],
            color=colour("muted"),
            linestyle=(0, (4, 3)),
            label="stated by the model",
        )
        axes.set_xlim(0, reports[-1] * 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("label reports that a prediction learned from", color=colour("muted"))
        axes.set_ylabel("accuracy, %", color=colour("muted"))
        axes.legend(frameon=False, fontsize=10, labelcolor=colour("ink"), loc="lower right")

    spoken = "; ".join(f"{each['learned_from']:,.0f} reports: {interval_text(each['accuracy'])}" for each in points)
    return inline_svg(paint, width=_WIDTH, height=_HEIGHT, name="curve", label=f"Learning curve. {spoken}.")


def _percent_axes(figure: Figure) -> Axes:
    axes = figure.add_axes((0.12, 0.15, 0.84, 0.81))
    axes.grid(visible=True, linewidth=0.6)
    axes.tick_params(length=0)
    return axes


def _error_bars(axes: Axes, places: Sequence[float], found: Sequence[dict[str, Any]], method: str) -> None:
    """Draw estimates with their intervals over shares."""
    for place, each in zip(places, found, strict=True):
        ends = [100 * each["low"], 100 * each["high"]]
        axes.plot([100 * place] * 2, ends, color=colour(method), linewidth=2, alpha=0.6)
        axes.plot([100 * place], [100 * each["value"]], color=colour(method), marker="o", markersize=6)
