"""`veilgraph lab generate`: a large graph with simulated reports, as shards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.options import JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.plain_text import counted


@dataclass(frozen=True, kw_only=True)
class _Simulated(Settings):
    """Graph and records of the model csbm, what is reported by how many, shards, processes and the seed."""

    mean_degree: Annotated[float, typer.Option(help="Mean number of neighbours.")] = 20.0
    classes: Annotated[int, typer.Option(help="Number of classes, of equal probability.")] = 4
    homophily: Annotated[float, typer.Option(help="Probability that an edge is within a class.")] = 0.8
    features: Annotated[int, typer.Option(help="Number of binary features; 0 collects the label alone.")] = 16
    signal: Annotated[float, typer.Option(help="Dependence of features on the class, 0 to 1.")] = 0.5
    epsilon_x: Annotated[float, typer.Option(help="Epsilon of each sampled feature (any two values of it).")] = 1.0
    sampled: Annotated[int, typer.Option(help="Number of features that a device samples.")] = 4
    epsilon_y: Annotated[float, typer.Option(help="Epsilon of the label (user level, any two records).")] = 2.0
    label_share: Annotated[float, typer.Option(help="Share of the nodes that report their label.")] = 0.75
    parts: Annotated[int, typer.Option(help="Number of shards; another number is another graph.")] = 64
    jobs: Annotated[int, typer.Option(help="Number of processes; the result does not depend on it.")] = 1
    seed: Annotated[int, typer.Option(help="Seed of graph, records and reports.")] = 0

    @property
    def budget(self) -> PrivacyBudget:
        """The budget of a report."""
        if not self.features:
            return PrivacyBudget(epsilon_y=self.epsilon_y)
        return PrivacyBudget(self.epsilon_x, self.epsilon_y, self.sampled)


@takes_groups
def generate(
    size: Annotated[int, typer.Argument(help="Number of nodes.", metavar="NODES")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    simulated: _Simulated,
    as_json: JsonOption = False,
) -> None:
    """Generate a large graph of the model csbm with simulated reports, as shards with their campaign."""
    with needs_extra("lab"):
        from veilgraph.datasets.csbm_blocks import CsbmBlocks
        from veilgraph.experiments.shard_simulation import CAMPAIGN, write_simulated_shards

    model = CsbmBlocks(
        num_nodes=size,
        num_classes=simulated.classes,
        mean_degree=simulated.mean_degree,
        homophily=simulated.homophily,
        num_features=simulated.features,
        feature_signal=simulated.signal,
        blocks=simulated.parts,
        seed=simulated.seed,
    )
    with show_progress("generate") as progress:
        folder = write_simulated_shards(
            out, model, simulated.budget, label_share=simulated.label_share, jobs=simulated.jobs, progress=progress
        )
    reports = folder.manifest["reports"]
    document = {
        "folder": str(out),
        "campaign": str(out / CAMPAIGN),
        "parts": folder.parts,
        "nodes": folder.num_nodes,
        "edges": folder.num_edges,
        "reports": reports,
    }
    sentences = [
        f"Generated {counted(folder.num_nodes, 'node')} and {counted(folder.num_edges, 'edge')} with "
        f"{counted(reports, 'simulated report')} in {counted(folder.parts, 'shard')}: {out}",
        f"Train on them: veilgraph train {out / CAMPAIGN} --graph {out} --out model",
    ]
    emit(Facts(document, sentences), as_json=as_json)
