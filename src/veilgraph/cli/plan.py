"""`veilgraph plan`: how to divide a total epsilon, from public information alone."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.acceptance import acceptance_in_words
from veilgraph.cli._common import check_new, needs_extra, show_progress
from veilgraph.cli.expected import Expected
from veilgraph.cli.neighbour_plan import Asked, NeighbourAdvice, advise
from veilgraph.cli.options import JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, Sentence, emit
from veilgraph.cli.people import counts_in_words, counts_of
from veilgraph.errors import RunError
from veilgraph.graph import Graph, read_public
from veilgraph.graph.shards import read_graph
from veilgraph.privacy.epsilon import NeighbourRelation, show_epsilon, state_epsilon
from veilgraph.privacy.mechanisms.registry import best_label_mechanism, describe
from veilgraph.privacy.schema import FeatureSchema

if TYPE_CHECKING:
    from veilgraph.experiments.budget_planner import Candidate, Plan


@dataclass(frozen=True, kw_only=True)
class _PublicOptions:
    """What is public: schema, graph and the name of the label."""

    schema: Annotated[Path | None, typer.Option(help="Schema of features and classes, .toml.")] = None
    graph: Annotated[Path | None, typer.Option(help="Public graph: edge table, .csv or .parquet.")] = None
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', if some have no edge.")] = None
    label: Annotated[str, typer.Option(help="The question, which is the name of the label.")] = "label"


@dataclass(frozen=True, kw_only=True)
class _Believed(Settings):
    """What is believed about the people, and the seed."""

    label_share: Annotated[float, typer.Option(help="Share of people who will report a label.")] = 0.75
    homophily: Annotated[
        list[float] | None, typer.Option(help="Share of edges within a class, if known, or a range: 0.6,0.9.")
    ] = None
    feature_signal: Annotated[
        list[float] | None, typer.Option(help="Dependence of features on the class, or a range; default: 0,0.3.")
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0
    people: Annotated[int | None, typer.Option(help="Private neighbours: number of people.")] = None
    degree: Annotated[float | None, typer.Option(help="Private neighbours: how many a person lists, roughly.")] = None
    classes: Annotated[int | None, typer.Option(help="Private neighbours: number of classes.")] = None
    answer: Annotated[
        str | None, typer.Option(help="Private neighbours: histogram or list for one entry, class for any two lists.")
    ] = None
    epsilon_x: Annotated[
        float | None, typer.Option(help="Private neighbours: budget of each sampled feature; default: none.")
    ] = None
    sampled: Annotated[int | None, typer.Option(help="Private neighbours: number of sampled features.")] = None

    def about_neighbours(self, epsilon: float) -> NeighbourAdvice:
        """Return a plan for private neighbours."""
        if self.people is None or self.degree is None or self.classes is None:
            raise RunError("who is asked? give --set people=..., --set degree=... and --set classes=...")
        asked = Asked(epsilon=epsilon, people=self.people, degree=self.degree, classes=self.classes, answer=self.answer)
        return advise(asked, homophily=self.homophily, epsilon_x=self.epsilon_x, sampled=self.sampled, seed=self.seed)


@takes_groups
def plan(
    epsilon: Annotated[
        float, typer.Option(help="Total of a report, user level (any two records); of private neighbours, see there.")
    ],
    public: _PublicOptions,
    believed: _Believed,
    private_contacts: Annotated[
        bool,
        typer.Option(
            "--private-neighbours",
            help="Nobody holds the graph: plan label and waves, under the relation of the answer.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The plan to write, .json, for 'veilgraph init --plan'.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend how to spend a total epsilon, and say which accuracy to expect, from public information alone."""
    if private_contacts:
        if public != _PublicOptions() or out is not None:
            raise RunError("a plan of private neighbours has no files: leave out --schema, --graph, --nodes and --out")
        emit(believed.about_neighbours(epsilon), as_json=as_json)
        return
    if public.schema is None or public.graph is None:
        raise RunError("what is asked of whom? give --schema and --graph, or --private-neighbours")
    with needs_extra("lab"):
        from veilgraph.experiments.budget_planner import FEATURE_SIGNALS, Beliefs, plan_collection
        from veilgraph.experiments.stand_ins import stand_ins
    from veilgraph.campaign.plan import CampaignPlan

    check_new(out)
    schema, graph = FeatureSchema.load(public.schema), read_graph(public.graph, nodes=public.nodes)
    known = read_public(schema.public, public.nodes, graph)
    if out is not None:  # a mistake in a text is said before the simulations
        first = best_label_mechanism(schema.num_classes, epsilon)
        CampaignPlan.new(schema=schema, graph=graph, label=public.label, label_mechanism=first)
    homophily, signal = believed.homophily, believed.feature_signal
    with show_progress("plan") as progress:
        found = plan_collection(
            graph,
            schema,
            total_epsilon=epsilon,
            beliefs=Beliefs(
                label_share=believed.label_share,
                homophily=(min(homophily), max(homophily)) if homophily else None,
                feature_signal=(min(signal), max(signal)) if signal else FEATURE_SIGNALS,
                public=known,
            ),
            seed=believed.seed,
            progress=progress,
        )
    best = found.recommended
    if out is not None:
        made = CampaignPlan.new(
            schema=schema, graph=graph, label=public.label, feature_mechanism=best.features, label_mechanism=best.label
        )
        write_atomically(out, made.to_json() + "\n")
    expected = Expected(found, believed.label_share, tuple(stand_ins(graph, known)))
    emit(_recommended(expected, graph, public, homophily_known=bool(homophily), out=out), as_json=as_json)


def _recommended(
    expected: Expected, graph: Graph, public: _PublicOptions, *, homophily_known: bool, out: Path | None
) -> Facts:
    """Return a plan, what it lets expect, its alternatives, and the command that begins its campaign.

    Args:
        expected: the plan, and what it lets expect.
        graph: people and links that it was made for.
        public: what it was made for, as options.
        homophily_known: whether the homophily was given.
        out: the file of the plan; None if it is not written.
    """
    plan, best = expected.plan, expected.plan.recommended
    people = [] if public.nodes is None else ["--people", str(public.nodes)]
    files = shlex.join(["--plan", str(out or "plan.json"), *people, "--links", str(public.graph)])
    following = f'veilgraph init FOLDER {files} --purpose "..." --contact "..." --closes 2030-12-31'
    written = {"out": str(out) if out else None, "next": following}
    known = "" if public.nodes else " People without links need --nodes, the table of everybody."
    said = f"The plan is in {out}. Next:" if out else "Next, after the same command with --out plan.json:"
    ask = "If you know more from elsewhere, say so: --set homophily=0.8, or 0.6,0.9 for a range."
    sentences: list[Sentence] = [
        f"Planned for {counts_in_words(counts_of(graph))}{known}",
        f"Recommended: {best.title}.",
        *best.guarantee.in_words(theorem_1=False),
        acceptance_in_words(best.guarantee),
        "",
        *expected.sentences,
        *([] if homophily_known else [ask]),
        _alternatives(plan),
        "Every epsilon is at user level: any two records.",
        "Assumed:",
        *(f"- {assumption}" for assumption in plan.assumptions),
        "",
        said,
        f"  {following}",
    ]
    return Facts(_plan_document(plan) | expected.document | counts_of(graph) | written, sentences)


def _design(candidate: Candidate) -> dict[str, Any]:
    features, label, spent = candidate.features, candidate.label, candidate.guarantee.as_dict()
    return {
        "title": candidate.title,
        "features": None
        if features is None
        else {
            "mechanism": describe(features),
            "epsilon_x": features.epsilon,
            "sampled": features.sampled,
        },
        "label": {
            "mechanism": describe(label),
            "epsilon_y": label.epsilon,
            "size": label.set_size,
        },
        NeighbourRelation.USER_LEVEL.key: spent[NeighbourRelation.USER_LEVEL.key],
    }


def _plan_document(found: Plan) -> dict[str, Any]:
    alternatives = []
    for each in found.candidates:
        lost, error = each.loss_to(found.recommended)
        costs = {"accuracy_lost": lost, "standard_error": error, "accuracies": each.accuracies}
        alternatives.append(_design(each) | {"recommended": each is found.recommended} | costs)
    return {
        "recommended": _design(found.recommended),
        "candidates": alternatives,
        "scenarios": [asdict(scenario) for scenario in found.scenarios],
        "assumptions": found.assumptions,
    }


def _alternatives(found: Plan) -> Table:
    """Return what each alternative costs."""
    table = Table(title="\nWhat each alternative costs, on average over simulations", title_justify="left")
    table.add_column("design")
    for name in ("label", "features", "total"):
        table.add_column(f"epsilon\n{name}", justify="right")
    table.add_column("accuracy\nlost, points", justify="right")
    for each in found.candidates:
        spent = each.guarantee
        epsilons = (spent.label_user_level, spent.features_user_level, spent.total_user_level)
        lost, error = each.loss_to(found.recommended)
        cost = "recommended" if each is found.recommended else f"{100 * lost:.1f} ± {100 * error:.1f}"
        table.add_row(each.title, *(show_epsilon(state_epsilon(epsilon)) for epsilon in epsilons), cost)
    return table
