"""`veilgraph train` and `veilgraph predict`: a model from reports, its card, and its predictions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from veilgraph.campaign.assessment import hundred_in_words, parts_in_words
from veilgraph.cli._common import needs_extra, parse_bytes, show_progress
from veilgraph.cli.completion import complete_method
from veilgraph.cli.named_files import GraphFiles, GraphOptions
from veilgraph.cli.options import DeviceOption, JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.collection.models import PREDICTIONS
from veilgraph.errors import MissingExtraError, RunError
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collection import Collection
    from veilgraph.deploy import Model, TrainingOptions
    from veilgraph.graph import Graph

_LARGE_TABLE = 2**17
"""Size in bytes above which the edge table of a graph is worth worker processes."""


@dataclass(frozen=True, kw_only=True)
class _Fit(Settings):
    """Hyper-parameters of the method, and what few people change."""

    backbone: Annotated[str | None, typer.Option(help="GNN: sage, gcn or gat; default: sage.")] = None
    feature_hops: Annotated[int | None, typer.Option(help="RGNN: K_x; default: chosen.")] = None
    label_hops: Annotated[int | None, typer.Option(help="RGNN: K_y; default: chosen.")] = None
    clusters: Annotated[int | None, typer.Option(help="RGNN: C, the number of clusters (bags); default: 16.")] = None
    llp_weight: Annotated[
        float | None, typer.Option(help="RGNN: alpha, the weight of the bags in the loss; default: 1.")
    ] = None
    epochs: Annotated[int | None, typer.Option(help="GNN: training epochs; default: 100.")] = None
    hold_out: Annotated[float, typer.Option(help="Share of label reports that only estimate the accuracy.")] = 0.0
    rounds: Annotated[
        str, typer.Option(help="Series: learn from 'all' reports of each person, or from the 'latest'.")
    ] = "all"
    seed: Annotated[int, typer.Option(help="Seed of the split, the folds and the weights.")] = 0
    memory: Annotated[str, typer.Option(help="Memory of a process for its arrays: 8GiB, 500MB.")] = "8GiB"
    plausible: Annotated[
        str | None, typer.Option(help="Without FOLDER: plausible class shares, .toml, whose excess raises an alarm.")
    ] = None
    tables: Annotated[str | None, typer.Option(help="Without FOLDER: folder of waves about private neighbours.")] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by the names of the methods."""
        return {
            "backbone": self.backbone,
            "feature_hops": self.feature_hops,
            "label_hops": self.label_hops,
            "num_clusters": self.clusters,
            "llp_weight": self.llp_weight,
            "epochs": self.epochs,
        }


@dataclass(frozen=True, kw_only=True)
class _LearnedOptions:
    """The method, and which reports it learns from."""

    method: Annotated[
        str | None,
        typer.Option(
            help="veil, structure_only (the control), rgnn or another that fits the campaign. Default: veil, and "
            "neighbour_waves for a wave about neighbours.",
            autocompletion=complete_method,
        ),
    ] = None
    screened: Annotated[bool, typer.Option("--screen", help="Leave out implausible reports.")] = False


@takes_groups
def train(
    collection: GraphOptions,
    learned: _LearnedOptions,
    fit: _Fit,
    out: Annotated[Path | None, typer.Option(help="Folder of the model; default: models/DATE in FOLDER.")] = None,
    card: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing: write the card of this model again, with the whole learning curve, and with the "
            "withdrawals since the training that the store knows.",
            metavar="MODEL",
        ),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Train a model on the reports of a collection, and write its card. Under torchrun, processes share the graph.

    In the folder of a collection, the predictions are written beside the model.
    """
    if card is not None:
        if out is not None or learned != _LearnedOptions():
            raise RunError("--card trains nothing: leave out --out, --method and --screen")
        completed = _completed(card, collection.graph_files(), device, parse_bytes(fit.memory))
        is_whole = (card / PREDICTIONS).exists()
        emit(completed if is_whole else _with_predictions(completed, card, collection, device), as_json=as_json)
        return
    files, home = collection.files(), collection.collection
    if out is None and home is None:
        raise RunError("--out is missing: give the folder of the model")
    folder = home.models.new(date.today()) if out is None and home is not None else cast(Path, out)
    with needs_extra("server"):
        public = _read_early(files.graph, files.nodes) if (learned.method or "veil").startswith("veil") else files.graph
        from veilgraph import deploy
        from veilgraph.distributed.process_group import leads

    source = deploy.open_source(
        files.campaign, public, store=files.store, nodes=files.nodes, rounds=fit.rounds, tables=_waves(home, fit)
    )
    model = deploy.train(source, _training_options(learned, fit, device, home), out=folder, watch=show_progress)
    if not leads():  # the other processes print nothing
        return
    completing = _card_command(None if home is None else home.folder, folder, files)
    trained = _trained(model, folder, completing, is_table=not files.graph.is_dir())
    emit(_with_predictions(trained, folder, collection, device), as_json=as_json)


def _with_predictions(trained: Facts, model: Path, collection: GraphOptions, device: str) -> Facts:
    """Write the predictions beside a model, in the folder of a collection."""
    if collection.collection is None:
        return trained
    predicted = _predict_nodes(model, collection.graph_files(), model / PREDICTIONS, _Answers(), device)
    document = cast(dict[str, Any], trained.document) | {"predictions": predicted.document}
    return Facts(document, [*trained.sentences, *predicted.sentences])


def _waves(home: Collection | None, fit: _Fit) -> Path | None:
    """Return the folder of waves about private neighbours; None if there are none."""
    if fit.tables is not None:
        return Path(fit.tables)
    return None if home is None else home.waves


def _training_options(learned: _LearnedOptions, fit: _Fit, device: str, home: Collection | None) -> TrainingOptions:
    from veilgraph.deploy import TrainingOptions

    plausible = None if fit.plausible is None else Path(fit.plausible)
    if plausible is None and home is not None and home.optional.plausible.is_file():
        plausible = home.optional.plausible
    return TrainingOptions(
        method=learned.method,
        parameters=fit.parameters,
        seed=fit.seed,
        hold_out=fit.hold_out,
        screened=learned.screened,
        plausible=plausible,
        device=device,
        memory=parse_bytes(fit.memory),
    )


def _trained(model: Model, out: Path, completing: str, *, is_table: bool) -> Facts:
    """Write the page of a model's card; return what was learned and where it is."""
    from veilgraph.deploy import read_card, shards_beside

    content = read_card(out)
    page, missing = _write_page(content, out)
    shards = shards_beside(out) if model.facts["processes"] > 1 and is_table else None
    files = {"card": page, "shards_folder": shards}
    named = {name: None if path is None else str(path) for name, path in files.items()}
    sentences = [
        *_training_in_words(model, content),
        f"Model: {out}",
        *([] if shards is None else [f"Graph and reports as shards, for predict --graph: {shards}"]),
        *_card_in_words(content, page, missing, completing),
    ]
    return Facts(model.facts | {"folder": str(out), "accuracy": content["accuracy"]} | named, sentences)


def _completed(model: Path, files: GraphFiles, device: str, memory: int) -> Facts:
    """Write the card of a model again, with the whole learning curve and the withdrawals since the training."""
    with needs_extra("server"):
        _start_workers(files.graph)
        from veilgraph.deploy import complete_card
    from veilgraph.graph.shards import read_graph

    graph = read_graph(files.graph, nodes=files.nodes)
    card = complete_card(
        model, graph, store=files.store, people_file=files.nodes, device=device, memory=memory, watch=show_progress
    )
    content = card.content
    page, missing = _write_page(content, model)
    return Facts(content, [*_accuracy_lines(content), *_card_in_words(content, page, missing, "")])


def _write_page(content: dict[str, Any], folder: Path) -> tuple[Path | None, str]:
    """Write the page of a card, and return its path, or why there is none."""
    try:
        from veilgraph.pages.model_card import write_card_page
    except MissingExtraError as error:
        return None, str(error)
    return write_card_page(content, folder), ""


def _card_in_words(content: dict[str, Any], page: Path | None, missing: str, completing: str) -> Iterator[str]:
    yield from _withdrawals_in_words(content["withdrawn_since"])
    yield f"Card: {page}" if page is not None else f"No card.html: {missing}"
    if completing and (curve := content["learning_curve"]) is not None and curve["left_out"]:
        points = len(curve["points"])
        yield f"Its learning curve has {points} points; more of them: {completing}"


def _withdrawals_in_words(since: int | None) -> Iterator[str]:
    """Say how many people withdrew since the training, if it is known and not none."""
    if since:
        people = counted(since, "person", "people")
        yield f"{people} withdrew since the training, whose reports are in this model: train again."


def _card_command(home: Path | None, model: Path, files: GraphFiles) -> str:
    """Return the command that completes the card. A password in the address of the store is not repeated."""
    words = ["veilgraph", "train", *([] if home is None else [str(home)]), "--card", str(model)]
    if home is None:
        words += ["--graph", str(files.graph)]
        words += [] if files.nodes is None else ["--nodes", str(files.nodes)]
        words += ["--store", files.store] if files.store is not None and files.store.startswith("sqlite:") else []
    return shlex.join(words)


def _accuracy_lines(content: dict[str, Any]) -> list[str]:
    """Return the estimates of accuracy in sentences; why there are none otherwise."""
    found = content["accuracy"]
    if found["model"] is None:
        return ["Accuracy: not estimated; --set hold_out=0.2 holds labels out and estimates it, for the control too."]
    labels = f"{counted(found['model']['reports'], 'randomized label')}, each {_JUDGES[content['judged_by']]}"
    lines = [f"Estimated accuracy of {content['method']}: {Estimate(**found['model']).text}, from {labels}."]
    if found["own_report"] is not None:
        lines.append(f"With a person's own report: {Estimate(**found['own_report']).text}.")
    if found["control"] is not None:
        lines.append(f"Estimated accuracy of structure_only: {Estimate(**found['control']).text}, the control.")
    if found["floor"] is not None:
        lines.append(f"Accuracy of the largest class, given for everybody: {Estimate(**found['floor']).text}.")
    if found["difference"] is not None:
        other = "control" if found["control"] is not None else "largest class"
        lines.append(f"Difference to the {other}: {Estimate(**found['difference']).points}.")
    lines += parts_in_words(found)
    if (hundred := (content["learning_curve"] or {}).get("next_hundred")) is not None:
        lines.append(hundred_in_words(Estimate(**hundred)))
    return lines


_JUDGES = {
    "out of fold": "judging a prediction that was made without it",
    "held out": "held out of the training",
}


@dataclass(frozen=True, kw_only=True)
class _Sure(Settings):
    """When a prediction counts as sure."""

    coverage: Annotated[
        float | None, typer.Option(help="Probability with which a set holds the true class; default: 0.9.")
    ] = None
    certain: Annotated[float, typer.Option(help="Least probability of an answer that is certain enough.")] = 0.8


@dataclass(frozen=True, kw_only=True)
class _WhoOptions:
    """Who is predicted, and who is left out."""

    without: Annotated[
        str,
        typer.Option(
            help="People to leave out: 'silent' (no report), 'withdrawn' (by the store), or both: 'withdrawn,silent'."
        ),
    ] = ""
    only: Annotated[
        Path | None, typer.Option(help="Predict the nodes of this table alone, by its column 'id'; default: all.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """What a prediction says, and about whom."""

    sure: _Sure = field(default_factory=_Sure)
    who: _WhoOptions = field(default_factory=_WhoOptions)


@takes_groups
def predict(
    collection: GraphOptions,
    who: _WhoOptions,
    sure: _Sure,
    out: Annotated[
        Path, typer.Option(help="Predictions to write: table, .csv or .parquet; of shards, a folder of shards too.")
    ],
    model: Annotated[
        Path | None, typer.Option(help="Folder that 'veilgraph train' wrote; default: the newest in FOLDER.")
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Predict classes of nodes from their neighbourhoods, with or without a report of the node itself.

    Everyone in the graph is predicted, also who sent nothing or has withdrawn; --without leaves them out.
    """
    home, answers = collection.collection, _Answers(sure=sure, who=who)
    if model is None:
        if home is None:
            raise RunError("the model is missing: give FOLDER, the folder of a collection, or --model")
        model = home.models.newest
    if model is None:
        raise RunError(f"{collection.folder} has no model yet: run 'veilgraph train {collection.folder}'")
    files = collection.graph_files(newer=True)
    is_shards = files.graph.is_dir() and answers.who.only is None and not out.suffix
    with needs_extra("server"):
        _start_workers(files.graph)
        from veilgraph.deploy.model_folder import is_shard_model

    if is_shards and ("RANK" in os.environ or is_shard_model(model)):
        if answers.who.without:
            raise RunError("--without needs a model of one process: leave it out, and drop the rows without a report")
        predicted = _predict_shards(model, files, out, answers, device)
    else:
        predicted = _predict_nodes(model, files, out, answers, device)
    if predicted is not None:  # another process leads and prints
        emit(predicted, as_json=as_json)


def _predict_nodes(model: Path, files: GraphFiles, out: Path, answers: _Answers, device: str) -> Facts:
    """Predict nodes by a model of one process."""
    from veilgraph.deploy import Model, predict_nodes
    from veilgraph.deploy.model_folder import is_shard_model
    from veilgraph.deploy.prediction import LeftOut, check_table_format, count_set_sizes, write_prediction_shards
    from veilgraph.deploy.stored_reports import withdrawn_since
    from veilgraph.graph import read_ids
    from veilgraph.graph.shards import read_graph

    is_shards = files.graph.is_dir() and answers.who.only is None and not out.suffix
    if not is_shards:
        check_table_format(out)
    loaded = Model.load(model, device=device, people=files.nodes)
    if is_shard_model(model):
        raise RunError(
            f"{model} was trained by several processes on shards: give them as --graph, and a folder as --out"
        )
    found = predict_nodes(
        loaded,
        read_graph(files.graph, nodes=files.nodes),
        nodes=None if answers.who.only is None else [str(node) for node in read_ids(answers.who.only)],
        store=files.store,
        coverage=answers.sure.coverage,
        certain=answers.sure.certain,
        without=cast(list[LeftOut], [each.strip() for each in answers.who.without.split(",") if each.strip()]),
        watch=show_progress,
    )
    write_prediction_shards(found, files.graph, out) if is_shards else found.write(out)
    is_whole = answers.who.only is None and not answers.who.without
    others = len(set(loaded.nodes or ()).difference(found.nodes)) if is_whole else 0
    sets = _describe_sets(count_set_sizes(found.sets), loaded, answers.sure.coverage)
    withdrawn = None if files.store is None else withdrawn_since(files.store, loaded)
    certain = int(found.certain.sum())
    document = {"file": str(out), "nodes": len(found), "nodes_of_training_left_out": others, "certain": certain}
    left_out = f"Not in {files.graph}: {counted(others, 'node')} of the training; name them in a table for --only."
    sentences = [
        *_predicted_in_words(len(found), out, answers.sure.certain, certain, sets),
        *([left_out] if others else []),
        *_withdrawals_in_words(withdrawn),
    ]
    return Facts(
        document | {"certain_from": answers.sure.certain, "sets": sets, "withdrawn_since": withdrawn}, sentences
    )


def _predict_shards(model: Path, files: GraphFiles, out: Path, answers: _Answers, device: str) -> Facts | None:
    """Predict all nodes of shards, together with the other processes if there are some; None where another leads."""
    from veilgraph.deploy import predict_shards

    if files.store is not None:
        raise RunError("--store needs a model of one process: leave it out; reports are those of the shards")
    coverage, certain = answers.sure.coverage, answers.sure.certain
    found = predict_shards(
        model, files.graph, out, device=device, coverage=coverage, certain=certain, watch=show_progress
    )
    if found is None:
        return None
    loaded, predicted = found
    sets, nodes = _describe_sets(predicted.set_sizes, loaded, coverage), loaded.facts["nodes"]
    document = {"file": str(out), "nodes": nodes, "certain": predicted.certain, "certain_from": certain, "sets": sets}
    return Facts(document, _predicted_in_words(nodes, out, certain, predicted.certain, sets))


def _predicted_in_words(
    nodes: int, out: Path, certain: float, answers: int, sets: dict[str, float] | None
) -> list[str]:
    one_class = "" if sets is None else " and one class in the set"
    return [
        f"Predicted {counted(nodes, 'node')}: {out}",
        f"Certain enough, with a probability of {certain:g} or more{one_class}: {counted(answers, 'answer')}.",
        *([] if sets is None else [_sets_in_words(sets)]),
    ]


def _describe_sets(sizes: list[int] | None, model: Model, coverage: float | None) -> dict[str, float] | None:
    """Return what is said about sets, given the number of nodes with a set of each size; None without sets."""
    from veilgraph.deploy.prediction import COVERAGE

    if sizes is None or not sum(sizes):
        return None
    coverage = COVERAGE if coverage is None else coverage
    return {
        "coverage": coverage,
        "standard_error": round(model.method.conformal_sets().standard_error(coverage), 6),
        "classes": len(sizes) - 1,
        "mean_size": sum(size * nodes for size, nodes in enumerate(sizes)) / sum(sizes),
        "single_class": sizes[1] / sum(sizes),
    }


def _sets_in_words(sets: dict[str, float]) -> str:
    return (
        f"Sets hold the true class of {sets['coverage']:.0%} of the nodes or more (standard error "
        f"{sets['standard_error']:.1%}): {sets['mean_size']:.2f} of {sets['classes']} classes on average, "
        f"one class for {sets['single_class']:.0%} of the nodes."
    )


def _read_early(edges: Path, nodes: Path | None) -> Path | Graph:
    """Read a graph that METIS takes long for, so that worker processes bisect it while torch is imported."""
    from veilgraph.graph import Graph
    from veilgraph.graph.clustering import prefetch_bisections

    if "RANK" in os.environ or not _is_large(edges):
        return edges  # processes of torchrun share the work in another way
    graph = Graph.from_files(edges, nodes=nodes)
    prefetch_bisections(graph)
    return graph


def _start_workers(edges: Path) -> None:
    """Start the processes that METIS needs for a large graph, so that they start while torch is imported."""
    from veilgraph.graph.metis import start_workers

    if _is_large(edges):
        start_workers()


def _is_large(edges: Path) -> bool:
    return edges.is_file() and edges.stat().st_size > _LARGE_TABLE


_COMBINED = {"all": "all their reports of the series together", "latest": "their latest report of the series"}
"""Which reports of a series a training combines, in words."""


def _training_in_words(model: Model, content: dict[str, Any]) -> Iterator[str]:
    facts = model.facts
    features = f"{counted(facts['feature_reports'], 'feature report')} and " if facts["feature_reports"] else ""
    held_out = f", without {facts['held_out']:,} that are held out" if facts["held_out"] else ""
    labels = counted(facts["label_reports"] - facts["held_out"], "label report")
    yield f"Trained {facts['method']} on {features}{labels} of {counted(facts['nodes'], 'node')}{held_out}."
    if known := facts.get("links"):
        yield f"Links have {known}."
    if answers := facts.get("neighbour_answers"):
        yield f"Answers about neighbours, wave by wave: {', '.join(f'{each:,}' for each in answers)}."
    if withdrawals := facts.get("withdrawals"):
        yield f"Left out: {counted(withdrawals, 'person', 'people')} who withdrew."
    if combined := _COMBINED.get(facts.get("rounds", "")):
        yield f"Of each person counts one answer to each question, from {combined}."
    if facts["resumed_after_epochs"]:
        yield f"Continued after epoch {facts['resumed_after_epochs']:,} of an earlier run."
    for suspicion in facts["screening"]["suspicions"]:
        flagged, expected, beyond = (suspicion[key] for key in ("flagged", "expected", "beyond_chance"))
        fate = "left out" if facts["screening"]["excluded"] else "kept, --screen leaves them out"
        if not beyond:
            fate = "kept, no report is implausible by itself"
        elif beyond < flagged:
            fate = f"{beyond:,} beyond chance: {fate}"
        yield f"{flagged:,} implausible ({suspicion['kind']}), {expected:.3g} expected by chance at most: {fate}"
    if shares := facts["plausibility"]["shares"]:
        alarms = [share for share in shares if share["verdict"] != "plausible"]
        for share in alarms:
            yield f"ALARM: {share['sentence']}"
        yield f"{len(shares) - len(alarms):,} of {len(shares):,} declared class shares are plausible."
    if contamination := facts["contamination"]:
        yield contamination["sentence"]
    if model.campaign.schema.public and not facts["public"]:
        told = "explain no reports here, so predictions do not use them"
        unread = f"are not read by {facts['method']}; veil and methods that train a GNN read them"
        yield f"The public columns {told if model.method.uses_public else unread}."
    yield from _accuracy_lines(content)
    for name, estimate in facts.get("estimated_accuracy", {}).items() if content["judged_by"] != "held out" else ():
        shown = Estimate.normal(estimate["accuracy"], estimate["standard_error"], reports=facts["held_out"])
        yield f"Held out: accuracy of {name} {shown.text}, from {counted(shown.reports, 'randomized label')}."
    yield from model.campaign.guarantee.in_words(theorem_1=False)
