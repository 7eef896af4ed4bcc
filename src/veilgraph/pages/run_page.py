"""One self-contained HTML page about a run."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_whole
from veilgraph.pages.paired_differences import (
    epsilon_text,
    figures_in_words,
    headline,
    method_name,
    method_rows,
    percent,
    within_intervals,
)
from veilgraph.pages.run_figures import (
    NARROW,
    WIDE,
    accuracy_plot,
    frequency_plot,
    learning_curve_plot,
)
from veilgraph.pages.templates import render_template

_CONFIGURATION_WORDS = {
    "dataset": "Data",
    "epsilon_x": "Budget asked for each sampled feature (epsilon_x)",
    "epsilon_y": "Budget asked for the label (epsilon_y)",
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
    """Writes the page of a run beside its result, and returns the page's path."""
    path = folder / "report.html"
    write_whole(path, render_report(result))
    return path


def render_report(result: dict[str, Any]) -> str:
    """What a run found, as a page that needs no network, no script and no other file.

    Args:
        result: what `run` returns and result.json holds.
    """
    return render_template(
        "page.html",
        dataset=result["dataset"],
        graph=result["graph"],
        seeds=result["configuration"]["seeds"],
        headline=headline(result),
        figures_in_words=figures_in_words(result),
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


def _guarantee(guarantee: dict[str, Any]) -> dict[str, Any]:
    """The guarantee's figures as text, under the keys they have in the result."""
    user, attribute, theorem_1 = guarantee["user_level"], guarantee["attribute_level"], guarantee["theorem_1"]
    return {
        "relations": guarantee["relations"],
        "user_level": {part: epsilon_text(epsilon) for part, epsilon in user.items()},
        "attribute_level": {"features": _span(attribute["features"]), "label": epsilon_text(attribute["label"])},
        "theorem_1": None if theorem_1 is None else epsilon_text(theorem_1),
    }


def _span(epsilons: list[float | str]) -> str:
    """From the smallest to the largest; "not private" is larger than every number.

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
        {"name": method_name(key), "svg": learning_curve_plot(key, curves, num_classes=num_classes)}
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
    """Every setting in the order of the result, the budget's among them; one without words of its own keeps its key."""
    settings: dict[str, Any] = {}
    for key, value in configuration.items():
        settings |= value if isinstance(value, dict) else {key: value}
    return [(_CONFIGURATION_WORDS.get(key, key), _setting_text(value)) for key, value in settings.items()]


def _setting_text(value: object) -> str:
    return "from the graph" if value is None else str(value)
