"""`veilgraph schema`, `account`, `audit` and `plan`: what may be reported, what it reveals, how to divide epsilon."""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.acceptance import acceptance_in_words
from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.cli.completion import complete_mechanism
from veilgraph.errors import BudgetError, RunError, SchemaError
from veilgraph.graph import Graph, read_table
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.audit import AuditResult, statistical_audit, statistical_list_audit, statistical_turns_audit
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.epsilon import (
    ListLoss,
    ListRelation,
    NeighbourRelation,
    json_epsilon,
    show_epsilon,
    state_epsilon,
)
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    JointGRR,
    LongitudinalFeatures,
    LongitudinalGRR,
    Mechanism,
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    NeighbourhoodMechanism,
    RandomizedNeighbourList,
    SubsetSelection,
)
from veilgraph.privacy.mechanisms.registry import (
    MECHANISMS,
    best_label_mechanism,
    find_mechanism,
    grr,
    grr_fs,
    joint_grr,
    subset_selection,
)
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema, propose_schema

if TYPE_CHECKING:
    from veilgraph.experiments.budget_planner import Candidate, Plan

schema_app = typer.Typer(help="Declare what may be reported.")

_KNOWN = ", ".join(MECHANISMS)
_CampaignFile = Annotated[
    Path | None, typer.Argument(help="A campaign, .json: takes everything else from it.", metavar="CAMPAIGN")
]
_Waves = Annotated[
    int | None, typer.Option(help="Waves of a series: everything is asked again in each, and answered by L-GRR.")
]
_Values = Annotated[int, typer.Option(help="Series: different values of a person that are answered.")]
_WaveEpsilon = Annotated[
    float | None, typer.Option(help="Series: budget of the label in a wave's report; default: half of epsilon_y.")
]
_WaveEpsilonX = Annotated[
    float | None, typer.Option(help="Series: budget of a feature in a wave's report; default: half of epsilon_x.")
]
# Epsilons of a randomized list do not depend on the number of people.
_PEOPLE = 100
# A record holds the neighbour list where answers about it are collected.
_WITH_THE_SAME_LIST = f"{NeighbourRelation.USER_LEVEL.value} with the same neighbour list"

_Neighbours = Annotated[
    str | None, typer.Option(help="Answers about private neighbour lists: class (any two lists), histogram or list.")
]
_EdgeEpsilon = Annotated[
    list[float] | None, typer.Option(help="Private neighbours: budget of a wave's answer; once for each wave.")
]
_Cap = Annotated[
    int | None, typer.Option(help="Histogram: neighbours that count for each class at most; protects whole lists.")
]


@schema_app.command()
def propose(
    sample: Annotated[Path, typer.Option(help="PUBLIC sample data, .csv or .parquet. Never private records.")],
    label: Annotated[str, typer.Option(help="The column that holds the class.")],
    out: Annotated[Path, typer.Option(help="The schema file to write.")],
    bins: Annotated[int, typer.Option(help="Bins of a continuous column.")] = 4,
) -> None:
    """Draft a schema from public sample data, for a person to review."""
    if out.exists():
        raise SchemaError(f"{out} exists: choose another --out")
    table = read_table(sample)
    draft = propose_schema(table.drop(columns="id", errors="ignore"), label=label, bins=bins)
    draft.save(out)
    echo(f"{draft.note} Written to {out}.")


@schema_app.command()
def show(path: Annotated[Path, typer.Argument(help="A schema file.")]) -> None:
    """Explain a schema."""
    schema = FeatureSchema.load(path)
    asked = counted(schema.num_features, "feature") if schema.num_features else "The label alone"
    echo(f"{asked}, {counted(schema.num_classes, 'class', 'classes')}: {', '.join(schema.classes)}")
    for name, codes in zip(schema.feature_names, schema.code_names, strict=True):
        echo(f"  {name}: {', '.join(codes)}")
    if schema.note:
        echo(schema.note)


def account(
    context: typer.Context,
    campaign: _CampaignFile = None,
    epsilon_x: Annotated[
        float | None, typer.Option(help="Budget of each sampled feature; leave out if none are collected.")
    ] = None,
    sampled: Annotated[
        int | None, typer.Option(help="Number of features that each person samples; at most all count.")
    ] = None,
    epsilon_y: Annotated[
        float | None, typer.Option(help="Budget of the label; leave out if none is collected.")
    ] = None,
    features: Annotated[int | None, typer.Option(help="Number of features.")] = None,
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2,
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None,
    classes: Annotated[int, typer.Option(help="Number of classes of the label.")] = 2,
    schema: Annotated[Path | None, typer.Option(help="Take features and classes from a schema file.")] = None,
    mechanism: Annotated[
        str, typer.Option(help=f"Mechanism of the features: {_KNOWN}.", autocompletion=complete_mechanism)
    ] = grr_fs.name,
    waves: _Waves = None,
    values: _Values = 2,
    wave_epsilon: _WaveEpsilon = None,
    wave_epsilon_x: _WaveEpsilonX = None,
    neighbours: _Neighbours = None,
    edge_epsilon: _EdgeEpsilon = None,
    cap: _Cap = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a report reveals at most: user level, attribute level, and why Theorem 1 is not used."""
    if campaign is not None:
        _print_guarantee(_read_campaign(context, campaign, "as_json").guarantee, as_json)
        return
    if (epsilon_x is None) != (sampled is None):
        raise BudgetError("epsilon_x and sampled belong together: give both, or neither if no features are collected")
    if epsilon_x is None and epsilon_y is None and neighbours is None:
        raise BudgetError(
            "nothing is collected: give --epsilon-y, or --epsilon-x with --sampled, or all three; "
            "for private neighbours --neighbours with --edge-epsilon"
        )
    _refuse_unused(context)
    sizes: tuple[int, ...] = ()
    if schema is not None:
        declared = FeatureSchema.load(schema)
        sizes, classes = declared.domain_sizes, declared.num_classes
    elif features is not None or domain_sizes is not None:
        sizes = _parse_domain_sizes(domain_sizes, features=features or 0, domain_size=domain_size)
    elif epsilon_x is not None:
        raise BudgetError("how many features? give --features, --domain-sizes or --schema")
    _check_number_of_features(features, sizes)
    guarantee = guarantee_of(
        None
        if epsilon_x is None or sampled is None
        else _feature_mechanism(mechanism, sizes, sampled, epsilon_x, waves, values, wave_epsilon_x),
        None if epsilon_y is None else _label_mechanism(classes, epsilon_y, waves, values, wave_epsilon),
        _neighbour_waves(neighbours, classes, edge_epsilon, cap),
    )
    _print_guarantee(guarantee, as_json)


def _print_guarantee(guarantee: Guarantee, as_json: bool) -> None:
    if as_json:
        echo_json(guarantee.as_dict())
    else:
        echo(*guarantee.in_words())


def audit(
    context: typer.Context,
    campaign: _CampaignFile = None,
    epsilon_x: Annotated[float | None, typer.Option(help="Budget of each sampled feature.")] = None,
    epsilon_y: Annotated[
        float | None, typer.Option(help="Budget of the label: audits the mechanism of labels.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes of the label.")] = 2,
    waves: _Waves = None,
    values: _Values = 2,
    wave_epsilon: _WaveEpsilon = None,
    wave_epsilon_x: _WaveEpsilonX = None,
    neighbours: _Neighbours = None,
    edge_epsilon: _EdgeEpsilon = None,
    cap: _Cap = None,
    mechanism: Annotated[
        str, typer.Option(help=f"Mechanism to audit: {_KNOWN}.", autocompletion=complete_mechanism)
    ] = grr_fs.name,
    features: Annotated[int, typer.Option(help="Number of features.")] = 1,
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 1,
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2,
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None,
    trials: Annotated[int, typer.Option(help="Number of reports to draw.")] = 1_000_000,
    claim: Annotated[float | None, typer.Option(help="Epsilon to test; default: the exact one.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the reports; default: a fresh one, which is printed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Draw reports of two worst-case records, or neighbour lists, and bound epsilon from below, at 99% confidence."""
    seed = secrets.randbits(32) if seed is None else seed
    asked: Campaign | None = None
    if campaign is not None:
        asked = _read_campaign(context, campaign, "trials", "seed", "as_json")
        figures = _campaign_figures(asked, trials, seed)
    else:
        if (epsilon_x is None) == (epsilon_y is None) and (neighbours is None or epsilon_x is not None):
            raise BudgetError(
                "one mechanism is audited at a time, and neighbour lists beside it: give --epsilon-x for features or "
                "--epsilon-y for labels, --neighbours with --edge-epsilon for neighbour lists, or a campaign"
            )
        _refuse_unused(context)
        lists = _neighbour_waves(neighbours, classes, edge_epsilon, cap)
        if claim is not None and lists and (epsilon_x is not None or epsilon_y is not None):
            raise BudgetError("--claim is about one mechanism: leave out --neighbours, or --epsilon-x and --epsilon-y")
        figures = []
        if epsilon_x is not None:
            sizes = _parse_domain_sizes(domain_sizes, features=features, domain_size=domain_size)
            _check_number_of_features(features if _is_given(context, "features") else None, sizes)
            audited = _feature_mechanism(mechanism, sizes, sampled, epsilon_x, waves, values, wave_epsilon_x)
            name = _name_of(audited) if waves else mechanism
            figures.append(_record_figure(name, audited, trials, seed, claim, beside_lists=bool(lists)))
        if epsilon_y is not None:
            label = _label_mechanism(classes, epsilon_y, waves, values, wave_epsilon)
            figures.append(_record_figure(_name_of(label), label, trials, seed, claim, beside_lists=bool(lists)))
        if neighbours is not None:
            figures += _list_figures(neighbours, lists, trials, seed, claim)
    if as_json:
        documents = [_audit_document(figure) | {"seed": seed} for figure in figures]
        if asked is None:
            echo_json(documents[0] if len(documents) == 1 else {"audits": documents})
        else:
            echo_json({"campaign": asked.id, "audits": documents})
        return
    for figure in figures:
        _print_audit(figure, seed)


class _Figure(NamedTuple):
    """An audited figure: the name of its mechanism, the pairs that its epsilon protects, and the result."""

    name: str
    pairs: str
    result: AuditResult


def _campaign_figures(asked: Campaign, trials: int, seed: int) -> list[_Figure]:
    """Audit the mechanisms of a campaign; of a wave about neighbours, those of its series so far."""
    series = asked.neighbours
    label = asked.label_mechanism if series is None else series.label
    figures = [
        _record_figure(_name_of(part), part, trials, seed, None, beside_lists=series is not None)
        for part in (asked.feature_mechanism, label)
        if part is not None
    ]
    if series is not None:
        figures += _list_figures("neighbour lists", series.answers, trials, seed, None, turns=series.turns)
    return figures


def _record_figure(
    name: str, audited: Mechanism, trials: int, seed: int, claim: float | None, *, beside_lists: bool
) -> _Figure:
    """Audit the features or the label; beside neighbour lists, a record holds the list as well."""
    pairs = _WITH_THE_SAME_LIST if beside_lists else NeighbourRelation.USER_LEVEL.value
    return _Figure(name, pairs, _audit(audited, trials, seed, claim))


def _audit(audited: Mechanism, trials: int, seed: int, claim: float | None) -> AuditResult:
    with _show_reports_drawn(trials) as progress:
        rng = np.random.default_rng(seed)
        return statistical_audit(audited, trials=trials, rng=rng, claim=claim, progress=progress)


@contextmanager
def _show_reports_drawn(total: int) -> Iterator[Callable[[int], None]]:
    with show_progress("audit") as update:
        drawn = 0

        def progress(count: int) -> None:
            nonlocal drawn
            drawn += count
            update("reports drawn", drawn, total)

        yield progress


def _list_figures(
    title: str,
    waves: Sequence[NeighbourhoodMechanism],
    trials: int,
    seed: int,
    claim: float | None,
    *,
    turns: int | None = None,
) -> list[_Figure]:
    """Audit what one person answers, under each relation that is protected; a claim is about one entry.

    Without turns this is all waves jointly. In turns it is each wave alone, against the claim of the series.
    """
    losses = [each.list_loss for each in waves]
    stated = ListLoss.sum_of(losses) if turns is None else ListLoss.largest_of(losses)
    protected = [each for each in ListRelation if math.isfinite(stated.under(each))] if claim is None else []
    relations = protected or [ListRelation.ONE_ENTRY]
    drawn_alone = 1 if turns is None else len(set(waves))
    together = " together" if len(waves) > 1 else ""
    figures = []
    with _show_reports_drawn(trials * len(relations) * drawn_alone) as progress:
        for relation in relations:
            rng = np.random.default_rng(seed)
            if turns is None:
                result = statistical_list_audit(waves, relation, trials=trials, rng=rng, claim=claim, progress=progress)
                figures.append(_Figure(f"{title}, {counted(len(waves), 'wave')}{together}", relation.value, result))
                continue
            found = statistical_turns_audit(waves, relation, trials=trials, rng=rng, claim=claim, progress=progress)
            for numbers, result in found.items():
                listed = ", ".join(map(str, numbers))
                asked = f"wave {listed}" if len(numbers) == 1 else f"any of the waves {listed}"
                name = f"{title}, {asked} (in turns: each person answers one of {turns} waves)"
                figures.append(_Figure(name, relation.value, result))
    return figures


def _neighbour_waves(
    kind: str | None, classes: int, epsilons: list[float] | None, cap: int | None
) -> tuple[NeighbourhoodMechanism, ...]:
    """Return the mechanism of each wave of answers about neighbour lists; none if no kind is given."""
    if kind is None:
        if epsilons or cap is not None:
            raise BudgetError(
                "--edge-epsilon and --cap are for private neighbours: give --neighbours class|histogram|list"
            )
        return ()
    if not epsilons:
        raise BudgetError("which budget has each wave? give --edge-epsilon once for each wave")
    if cap is not None and kind != "histogram":
        raise BudgetError("--cap is for histograms: the class protects lists of any length, randomized lists none")
    if kind == "class":
        return tuple(NeighbourhoodClass(classes, epsilon) for epsilon in epsilons)
    if kind == "histogram":
        return tuple(NeighbourhoodHistogram(classes, epsilon, finest_scale(classes), cap) for epsilon in epsilons)
    if kind == "list":
        if len(epsilons) > 1:
            raise BudgetError(
                "a series asks for a randomized list in one wave: give --edge-epsilon once, or choose --neighbours "
                "class or histogram"
            )
        return tuple(RandomizedNeighbourList(_PEOPLE, epsilon) for epsilon in epsilons)
    raise BudgetError(f"there is no answer '{kind}' about neighbours: choose class, histogram or list")


def _audit_document(figure: _Figure) -> dict[str, Any]:
    result = figure.result
    stated = {"claim": json_epsilon(result.claim), "mechanism": figure.name}
    return {**asdict(result), **stated, "relation": f"{result.relation.title}: {figure.pairs}"}


def _print_audit(figure: _Figure, seed: int) -> None:
    result = figure.result
    verdict = "REFUTED: the claim is too low." if result.refuted else "Not refuted."
    echo(
        f"{figure.name}, {result.relation.title} ({figure.pairs}), {result.trials:,} reports, seed {seed}",
        f"claimed epsilon      {show_epsilon(result.claim)}",
        f"measured at least    {math.floor(result.lower_bound * 1e4) / 1e4:.4f} at {result.confidence:.0%} confidence",
        verdict,
    )


def _label_mechanism(
    classes: int, epsilon: float, waves: int | None, values: int, wave_epsilon: float | None
) -> GRR | SubsetSelection | LongitudinalGRR:
    """Return the mechanism of a label that is asked once, or in several waves."""
    if waves is None:
        if wave_epsilon is not None:
            raise BudgetError("a budget of each wave needs a number of waves: give --waves")
        return best_label_mechanism(classes, epsilon)
    return LongitudinalGRR(classes, epsilon, epsilon / 2 if wave_epsilon is None else wave_epsilon, waves, values)


def _feature_mechanism(
    name: str,
    sizes: tuple[int, ...],
    sampled: int,
    epsilon: float,
    waves: int | None,
    values: int,
    wave_epsilon: float | None,
) -> Mechanism:
    """Return the mechanism of features that are asked once, or in several waves."""
    entry = find_mechanism(name)
    if sampled < 1:  # mechanisms of a single value would not look at it
        raise BudgetError(f"sampled is {sampled}: a person samples at least 1 feature")
    if waves is None:
        if wave_epsilon is not None:
            raise BudgetError("a budget of each wave needs a number of waves: give --waves")
        return entry.make(sizes, sampled, epsilon)
    if entry is not grr_fs:  # the default, which nobody has to choose
        raise BudgetError(f"the features of a series are answered by L-GRR: leave out --mechanism {name}, or --waves")
    of_wave = epsilon / 2 if wave_epsilon is None else wave_epsilon
    return LongitudinalFeatures(sizes, sampled, epsilon, of_wave, waves, values)


def _name_of(mechanism: Mechanism) -> str:
    """Return the name of a campaign's mechanism in the registry."""
    if isinstance(mechanism, LongitudinalFeatures | LongitudinalGRR):
        asked = f" of {counted(mechanism.sampled, 'feature')}" if isinstance(mechanism, LongitudinalFeatures) else ""
        waves = counted(mechanism.waves, "wave")
        return f"l-grr{asked}, {waves}, values at most {mechanism.values} (a record is a history)"
    kinds = ((GRRFS, grr_fs), (JointGRR, joint_grr), (GRR, grr), (SubsetSelection, subset_selection))
    return next(entry.name for kind, entry in kinds if isinstance(mechanism, kind))


def _read_campaign(context: typer.Context, path: Path, *allowed: str) -> Campaign:
    """Read a campaign; refuse options other than the allowed ones, because the campaign states the rest."""
    for name in context.params.keys() - {"campaign", *allowed}:
        if _is_given(context, name):
            raise BudgetError(f"{path} states budget and mechanisms: leave out {_option(name)}, or the campaign")
    return Campaign.from_json(path.read_bytes())


def _refuse_unused(context: typer.Context) -> None:
    """Refuse options of `account` and `audit` that would change nothing beside the other ones."""
    given = context.params
    features, label = given["epsilon_x"] is not None, given["epsilon_y"] is not None
    sizes, schema = given["domain_sizes"] is not None, given.get("schema") is not None
    about_classes = label or given["neighbours"] not in (None, "list")
    unused: dict[str, str] = {}
    if not features:
        about = ("mechanism", "features", "sampled", "domain_size", "domain_sizes", "wave_epsilon_x")
        unused |= dict.fromkeys(about, "it is about features: give --epsilon-x, or leave it out")
    if not label:
        unused["wave_epsilon"] = "it is about the label: give --epsilon-y, or leave it out"
    if not about_classes:
        no_classes = "nothing here has classes: give --epsilon-y or --neighbours class|histogram, or leave it out"
        unused |= {"classes": no_classes} if features else {"classes": no_classes, "schema": no_classes}
    if given["waves"] is None:
        unused["values"] = "it is about a series: give --waves, or leave it out"
    elif not features and not label:
        unused["waves"] = "it is about features and label: each --edge-epsilon is a wave about neighbours"
    if features and schema:
        unused |= dict.fromkeys(("domain_size", "domain_sizes"), "the schema says it: leave out one of them")
    if features and sizes:
        unused["domain_size"] = "--domain-sizes says it: leave out one of them"
    if about_classes and schema:
        unused["classes"] = "the schema says it: leave out one of them"
    for name, reason in unused.items():
        if _is_given(context, name):
            raise BudgetError(f"{_option(name)} would change nothing: {reason}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _check_number_of_features(features: int | None, sizes: tuple[int, ...]) -> None:
    if features is not None and features != len(sizes):
        raise BudgetError(f"features is {features}, but {len(sizes)} domain sizes are given")


def _parse_domain_sizes(text: str | None, *, features: int, domain_size: int) -> tuple[int, ...]:
    """Parse "2,3,4", or repeat `domain_size` for each feature if there is no text.

    >>> _parse_domain_sizes("2,3,4", features=53, domain_size=2)
    (2, 3, 4)
    """
    if text is None:
        if features < 1:
            raise BudgetError(f"features is {features}: there must be at least 1")
        return (domain_size,) * features
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise BudgetError(f"domain sizes are '{text}': give whole numbers with commas, such as 2,3,4") from None


def plan(
    epsilon: Annotated[float, typer.Option(help="Total user-level epsilon of a report, any two records.")],
    schema: Annotated[Path, typer.Option(help="Schema of features and classes, .toml.")],
    graph: Annotated[Path, typer.Option(help="Public graph: edge table, .csv or .parquet.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', if some have no edge.")] = None,
    label: Annotated[str, typer.Option(help="Name of the label.")] = "label",
    label_share: Annotated[float, typer.Option(help="Share of people who will report a label.")] = 0.75,
    homophily: Annotated[
        list[float] | None, typer.Option(help="Share of edges within a class, if you know it; twice for a range.")
    ] = None,
    feature_signal: Annotated[
        list[float] | None,
        typer.Option(help="Dependence of features on the class, 0 to 1; twice for a range. Default 0 to 0.3."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The plan to write, .json, for 'campaign new --plan'.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Recommend how to spend a total epsilon, and say which accuracy to expect, from public information alone."""
    with needs_extra("lab"):
        from veilgraph.experiments.budget_planner import FEATURE_SIGNALS, plan_collection
    from veilgraph.campaign.plan import CampaignPlan

    if out is not None and out.exists():
        raise RunError(f"{out} exists: choose another --out")
    declared, public = FeatureSchema.load(schema), Graph.from_files(graph, nodes=nodes)
    if out is not None:  # a mistake in a text is said before the simulations
        CampaignPlan.new(
            schema=declared,
            graph=public,
            label=label,
            label_mechanism=best_label_mechanism(declared.num_classes, epsilon),
        )
    with show_progress("plan") as progress:
        found = plan_collection(
            public,
            declared,
            total_epsilon=epsilon,
            label_share=label_share,
            homophily=(min(homophily), max(homophily)) if homophily else None,
            feature_signal=(min(feature_signal), max(feature_signal)) if feature_signal else FEATURE_SIGNALS,
            seed=seed,
            progress=progress,
        )
    best = found.recommended
    if out is not None:
        made = CampaignPlan.new(
            schema=declared, graph=public, label=label, feature_mechanism=best.features, label_mechanism=best.label
        )
        write_atomically(out, made.to_json() + "\n")
    following = (
        f'veilgraph campaign new --plan {shlex.quote(str(out or "plan.json"))} --purpose "..." --contact "..." '
        "--closes 2030-12-31 --out campaign.json"
    )
    if as_json:
        echo_json(_plan_document(found) | {"out": str(out) if out else None, "next": following})
        return
    _print_plan(found, homophily_known=bool(homophily))
    echo("", f"The plan is in {out}. Next:" if out else "Next, after the same command with --out plan.json:")
    echo(f"  {following}")


def _design(candidate: Candidate) -> dict[str, Any]:
    features, label, spent = candidate.features, candidate.label, candidate.guarantee.as_dict()
    return {
        "title": candidate.title,
        "features": None
        if features is None
        else {
            "mechanism": _name_of(features),
            "epsilon_x": features.epsilon,
            "sampled": features.sampled,
        },
        "label": {
            "mechanism": _name_of(label),
            "epsilon_y": label.epsilon,
            "size": label.set_size,
        },
        NeighbourRelation.USER_LEVEL.key: spent[NeighbourRelation.USER_LEVEL.key],
    }


def _plan_document(found: Plan) -> dict[str, Any]:
    low, high = found.expected_accuracy
    alternatives = []
    for each in found.candidates:
        lost, error = each.loss_to(found.recommended)
        costs = {"accuracy_lost": lost, "standard_error": error, "accuracies": each.accuracies}
        alternatives.append(_design(each) | {"recommended": each is found.recommended} | costs)
    return {
        "recommended": _design(found.recommended),
        "expected_accuracy": {"low": low, "high": high, "probability": 0.9},
        "candidates": alternatives,
        "scenarios": [asdict(scenario) for scenario in found.scenarios],
        "assumptions": found.assumptions,
    }


def _print_plan(found: Plan, *, homophily_known: bool) -> None:
    best, (low, high) = found.recommended, found.expected_accuracy
    echo(f"Recommended: {best.title}.", *best.guarantee.in_words(theorem_1=False), acceptance_in_words(best.guarantee))
    echo("", f"Expected accuracy of predictions: {low:.0%} to {high:.0%} (90% interval over the draws of labels).")
    if not homophily_known:
        echo("It is wide because the graph does not tell the homophily, the share of edges within a class:")
    for homophily, accuracy in found.accuracy_by_homophily:
        echo("  draws of homophily {:.0%} to {:.0%}: accuracy {:.0%} to {:.0%}".format(*homophily, *accuracy))
    if not homophily_known:
        echo("If you know it from elsewhere, say so: --homophily 0.8, or twice for a range.")
    table = Table(title="\nWhat each alternative costs, on average over simulations", title_justify="left")
    table.add_column("design")
    for name in ("label", "features", "total"):
        table.add_column(f"epsilon\n{name}", justify="right")
    table.add_column("accuracy\nlost, points", justify="right")
    for each in found.candidates:
        spent = each.guarantee
        epsilons = (spent.label_user_level, spent.features_user_level, spent.total_user_level)
        lost, error = each.loss_to(best)
        cost = "recommended" if each is best else f"{100 * lost:.1f} ± {100 * error:.1f}"
        table.add_row(each.title, *(show_epsilon(state_epsilon(epsilon)) for epsilon in epsilons), cost)
    Console().print(table)
    echo("Every epsilon is at user level: any two records.", "Assumed:", *(f"- {each}" for each in found.assumptions))
