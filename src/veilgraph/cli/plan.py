"""`veilgraph plan`: divide a total epsilon between the label and the features."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.mechanisms.registry import joint_grr

if TYPE_CHECKING:
    from veilgraph.experiments.budget_planner import Candidate, Plan


def plan(
    epsilon: Annotated[float, typer.Option(help="Total user-level epsilon of a report, any two records.")],
    schema: Annotated[Path, typer.Option(help="Schema of features and classes, .toml.")],
    graph: Annotated[Path, typer.Option(help="Public graph: edge table, .csv or .parquet.")],
    label_share: Annotated[float, typer.Option(help="Share of people who will report a label.")] = 0.75,
    homophily: Annotated[
        list[float] | None, typer.Option(help="Share of edges within a class; may be repeated. Default 0.65, 0.85.")
    ] = None,
    feature_signal: Annotated[
        list[float] | None,
        typer.Option(help="Dependence of features on the class, 0 to 1; may be repeated. Default 0, 0.3."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Recommend a mechanism and budgets for a total epsilon, from public information alone."""
    with needs_extra("lab"):
        from veilgraph.experiments.budget_planner import FEATURE_SIGNALS, HOMOPHILIES, plan_collection
    from veilgraph.graph import Graph
    from veilgraph.privacy.schema import FeatureSchema

    with show_progress("plan") as progress:
        found = plan_collection(
            Graph.from_files(graph),
            FeatureSchema.load(schema),
            total_epsilon=epsilon,
            label_share=label_share,
            homophilies=homophily or HOMOPHILIES,
            feature_signals=feature_signal or FEATURE_SIGNALS,
            seed=seed,
            progress=progress,
        )
    if as_json:
        echo_json(_document(found))
    else:
        _print(found)


def _allocation(candidate: Candidate) -> dict[str, Any]:
    features = candidate.features
    return {
        "mechanism": None if features is None else joint_grr.name,
        "epsilon_x": None if features is None else features.epsilon,
        "sampled": 0 if features is None else features.sampled,
        "epsilon_y": candidate.label.epsilon,
        "label_share": candidate.label_share,
        "epsilon_user_level": state_epsilon(candidate.guarantee.total_user_level),
    }


def _document(found: Plan) -> dict[str, Any]:
    low, high = found.expected_accuracy
    return {
        "recommended": _allocation(found.recommended),
        "expected_accuracy": {"low": low, "high": high},
        "candidates": [
            _allocation(each) | {"accuracies": each.accuracies, "spreads": each.spreads} for each in found.candidates
        ],
        "scenarios": [asdict(scenario) for scenario in found.scenarios],
        "assumptions": found.assumptions,
    }


def _print(found: Plan) -> None:
    best, (low, high) = found.recommended, found.expected_accuracy
    if best.features is None:
        echo(f"Ask for the label alone: GRR with epsilon_y = {best.label.epsilon:g}.")
    else:
        echo(
            f"Ask for the label by GRR with epsilon_y = {best.label.epsilon:g}, and for {best.features.sampled} of "
            f"{best.features.num_features} features by joint GRR with epsilon_x = {best.features.epsilon:g} each."
        )
    for sentence in best.guarantee.in_words():
        echo(sentence)
    echo(f"Expected accuracy: {low:.0%} to {high:.0%}.")
    table = Table(title="Accuracy in simulations, mean ± standard deviation between draws")
    table.add_column("for the label")
    for scenario in found.scenarios:
        table.add_column(f"homophily {scenario.homophily:g}\nsignal {scenario.feature_signal:g}", justify="right")
    for each in found.candidates:
        cells = (f"{100 * m:.1f} ± {100 * s:.1f}" for m, s in zip(each.accuracies, each.spreads, strict=True))
        table.add_row(f"{each.label_share:.0%}" + (" *" if each is best else ""), *cells)
    Console().print(table)
    echo("Assumed:")
    for sentence in found.assumptions:
        echo(f"- {sentence}")
