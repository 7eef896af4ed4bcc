"""The page of one run: a single HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.pages.formatting import (
    accuracy_text,
    epsilon_text,
    method_description,
    method_title,
    percent,
    short_epsilon,
)
from veilgraph.pages.paired_differences import CONTROL, PairedDifference
from veilgraph.pages.rendering import render_template
from veilgraph.pages.run_figures import (
    NARROW,
    WIDE,
    accuracy_plot,
    frequency_plot,
    learning_curve_plot,
    within_intervals,
)

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
    "version": "veilgraph version",
}


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
        guarantee=_guarantee(result["guarantee"]),
        methods=method_rows(result),
        accuracy_wide=accuracy_plot(result, WIDE),
        accuracy_narrow=accuracy_plot(result, NARROW),
        curves=_curves(result),
        frequencies=_frequencies(result["frequencies"]),
        graph_facts=_graph_facts(result["graph"]),
        configuration=_configuration(result["configuration"]),
    )


def headline(result: dict[str, Any]) -> str:
    """Return the verdict: whether RGNN is above the control, which uses no features."""
    methods = result["methods"]
    difference = PairedDifference.of(methods["rgnn"]["accuracies"], methods[CONTROL]["accuracies"])
    sentence = _compared_with_control(difference)
    majority = result["graph"]["majority_share"]
    if methods["rgnn"]["accuracy_mean"] <= majority:
        sentence += f" RGNN is not above always predicting the largest class ({percent(majority)})."
    return sentence


def _compared_with_control(difference: PairedDifference) -> str:
    points = f"{abs(100 * difference.mean):.1f} points"
    ahead = difference.mean > 0
    if difference.standard_error is None:
        place = f"{points} above" if ahead else "not above"
        return (
            f"With one seed, RGNN is {place} the control that uses no features; the spread between seeds is not known."
        )
    if difference.clear:
        control = "control that uses no features"
        return f"RGNN beats the {control} by {points}." if ahead else f"The {control} beats RGNN by {points}."
    if points == "0.0 points":
        return "RGNN is level with the control that uses no features: their mean difference rounds to 0.0 points."
    if ahead:
        return f"RGNN is {points} above the control that uses no features, within the spread between seeds."
    return f"RGNN is not above the control that uses no features: {points} below, within the spread between seeds."


def summary(result: dict[str, Any]) -> str:
    """Return the accuracy and the epsilon of the main methods in a sentence."""
    methods = result["methods"]
    rgnn, control, ceiling = methods["rgnn"], methods[CONTROL], methods["non_private"]
    return (
        f"RGNN reaches {accuracy_text(rgnn)} {_at(rgnn)}; "
        f"label propagation without any features reaches {accuracy_text(control)} {_at(control)}; "
        f"without privacy the same GNN reaches {accuracy_text(ceiling)}. "
        f"Always predicting the largest class gives {percent(result['graph']['majority_share'])}."
    )


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


def _graph_facts(graph: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("Nodes", f"{graph['nodes']:,}"),
        ("Edges", f"{graph['edges']:,}"),
        ("Mean degree", f"{graph['mean_degree']:.1f}"),
        ("Features", f"{graph['features']:,}"),
        ("Classes", f"{graph['classes']:,}"),
        ("Share of the largest class", percent(graph["majority_share"])),
    ]


def _configuration(configuration: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every setting with its title, in the order of the result; a setting without a title keeps its key."""
    settings: dict[str, Any] = {}
    for key, value in configuration.items():
        settings |= value if isinstance(value, dict) else {key: value}
    return [(_SETTING_TITLES.get(key, key), _setting_text(value)) for key, value in settings.items()]


def _setting_text(value: object) -> str:
    return "chosen from the graph" if value is None else str(value)
