"""`veilgraph train`, `veilgraph card` and `veilgraph predict`: a model from reports, its card, and its predictions."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from veilgraph.cli._common import echo, echo_json, needs_extra, parse_bytes, show_progress
from veilgraph.cli.completion import complete_method
from veilgraph.errors import MissingExtraError, RunError
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.deploy import Model
    from veilgraph.graph import Graph

_LARGE_TABLE = 2**17
"""Size in bytes above which the edge table of a graph is worth worker processes."""


def train(
    campaign: Annotated[Path, typer.Option(help="Campaign, .json.")],
    graph: Annotated[
        Path, typer.Option(help="Public graph of the campaign: edge table, .csv or .parquet, or folder of shards.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the model.")],
    store: Annotated[
        str | None,
        typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...; default: those of the shards."),
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="veil, structure_only (the control), rgnn or another that fits the campaign. Default: veil, and "
            "neighbour_waves for a wave about neighbours.",
            autocompletion=complete_method,
        ),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="GNN: sage, gcn or gat; default: sage.")] = None,
    feature_hops: Annotated[int | None, typer.Option(help="RGNN: K_x; default: from the graph.")] = None,
    label_hops: Annotated[int | None, typer.Option(help="RGNN: K_y; default: from the graph.")] = None,
    clusters: Annotated[int | None, typer.Option(help="RGNN: C, the number of clusters (bags); default: 16.")] = None,
    llp_weight: Annotated[
        float | None, typer.Option(help="RGNN: alpha, the weight of the bags in the loss; default: 1.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="GNN: training epochs; default: 100.")] = None,
    hold_out: Annotated[float, typer.Option(help="Share of label reports that only estimate the accuracy.")] = 0.0,
    screened: Annotated[bool, typer.Option("--screen", help="Leave out implausible reports.")] = False,
    plausible: Annotated[
        Path | None, typer.Option(help="Plausible class shares, .toml; others raise an alarm, and training goes on.")
    ] = None,
    waves: Annotated[
        str, typer.Option(help="Series: learn from 'all' reports of each person, or from the 'latest'.")
    ] = "all",
    tables: Annotated[
        Path | None, typer.Option(help="Private neighbours: folder of 'neighbours publish'; its newest wave is taken.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, the folds and the weights.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[str, typer.Option(help="Memory of a process for its arrays: 8GiB, 500MB.")] = "8GiB",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Train a model on the reports of a campaign. Under torchrun, processes share the graph."""
    with needs_extra("server"):
        public = _read_early(graph, nodes) if (method or "veil").startswith("veil") else graph
        from veilgraph import deploy
        from veilgraph.distributed.process_group import leads

    parameters = {"backbone": backbone, "feature_hops": feature_hops, "label_hops": label_hops, "epochs": epochs}
    options = deploy.TrainingOptions(
        method=method,
        parameters=parameters | {"num_clusters": clusters, "llp_weight": llp_weight},
        seed=seed,
        hold_out=hold_out,
        screened=screened,
        plausible=plausible,
        device=device,
        memory=parse_bytes(memory),
    )
    source = deploy.open_source(campaign, public, store=store, nodes=nodes, waves=waves, tables=tables)
    model = deploy.train(source, options, out=out, watch=show_progress)
    if leads():  # the other processes print nothing
        _print_model(model, out, _card_command(out, graph, nodes, store), is_table=not graph.is_dir(), as_json=as_json)


def _print_model(model: Model, out: Path, completing: str, *, is_table: bool, as_json: bool) -> None:
    """Write the page of a model's card, and print what was learned and where it is."""
    from veilgraph.deploy import read_card, shards_beside

    content = read_card(out)
    page, missing = _write_page(content, out)
    shards = shards_beside(out) if model.facts["processes"] > 1 and is_table else None
    if as_json:
        files = {"card": page, "shards_folder": shards}
        named = {name: None if path is None else str(path) for name, path in files.items()}
        echo_json(model.facts | {"folder": str(out), "accuracy": content["accuracy"]} | named)
        return
    _print_training(model, content)
    echo(f"Model: {out}")
    if shards is not None:
        echo(f"Graph and reports as shards, for predict --graph: {shards}")
    _print_card(content, page, missing, completing)


def card(
    model: Annotated[Path, typer.Option(help="Folder that `veilgraph train` wrote.")],
    graph: Annotated[
        Path, typer.Option(help="Public graph of the campaign: edge table, .csv or .parquet, or folder of shards.")
    ],
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")] = None,
    store: Annotated[
        str | None, typer.Option(help="Store of the reports, to count the people who withdrew since the training.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[str, typer.Option(help="Memory of a process for its arrays: 8GiB, 500MB.")] = "8GiB",
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON and nothing else.")] = False,
) -> None:
    """Write the card of a model again, with the whole learning curve and the withdrawals since the training."""
    with needs_extra("server"):
        _start_workers(graph)
        from veilgraph.deploy import complete_card
    from veilgraph.graph.shards import read_graph

    content = complete_card(
        model,
        read_graph(graph, nodes=nodes),
        store=store,
        device=device,
        memory=parse_bytes(memory),
        watch=show_progress,
    ).content
    page, missing = _write_page(content, model)
    if as_json:
        echo_json(content)
        return
    for line in _accuracy_lines(content):
        echo(line)
    _print_card(content, page, missing, "")


def _write_page(content: dict[str, Any], folder: Path) -> tuple[Path | None, str]:
    """Write the page of a card, and return its path, or why there is none."""
    try:
        from veilgraph.pages.model_card import write_card_page
    except MissingExtraError as error:
        return None, str(error)
    return write_card_page(content, folder), ""


def _print_card(content: dict[str, Any], page: Path | None, missing: str, completing: str) -> None:
    _print_withdrawals(content["withdrawn_since"])
    echo(f"Card: {page}" if page is not None else f"No card.html: {missing}")
    if completing and (curve := content["learning_curve"]) is not None and curve["left_out"]:
        points = len(curve["points"])
        echo(f"Its learning curve has {points} points; more of them: {completing}")


def _print_withdrawals(since: int | None) -> None:
    """Say how many people withdrew since the training, if it is known and not none."""
    if since:
        people = counted(since, "person", "people")
        echo(f"{people} withdrew since the training, whose reports are in this model: train again.")


def _card_command(folder: Path, graph: Path, nodes: Path | None, store: str | None) -> str:
    """Return the command that completes the card. A password in the address of the store is not repeated."""
    words = ["veilgraph", "card", "--model", str(folder), "--graph", str(graph)]
    words += [] if nodes is None else ["--nodes", str(nodes)]
    words += ["--store", store] if store is not None and store.startswith("sqlite:") else []
    return shlex.join(words)


def _accuracy_lines(content: dict[str, Any]) -> list[str]:
    """Return the estimates of accuracy in sentences; why there are none otherwise."""
    found = content["accuracy"]
    if found["model"] is None:
        return ["Accuracy: not estimated; --hold-out 0.2 holds labels out and estimates it, for the control too."]
    labels = f"{counted(found['model']['reports'], 'randomized label')}, each {_JUDGES[content['judged_by']]}"
    lines = [f"Estimated accuracy of {content['method']}: {Estimate(**found['model']).text}, from {labels}."]
    if found["own_report"] is not None:
        lines.append(f"With a person's own report: {Estimate(**found['own_report']).text}.")
    if found["control"] is not None:
        lines.append(f"Estimated accuracy of structure_only: {Estimate(**found['control']).text}, the control.")
    if found.get("floor") is not None:
        lines.append(
            f"Estimated accuracy of the most frequent class: {Estimate(**found['floor']).text}, the floor: all that is "
            "known of a person without neighbours and without their own report. There is no control, which needs edges."
        )
    if found["difference"] is not None:
        other = "control" if found["control"] is not None else "floor"
        lines.append(f"Difference to the {other}: {Estimate(**found['difference']).points}.")
    return lines


_JUDGES = {
    "out of fold": "judging a prediction that was made without it",
    "held out": "held out of the training",
}


def predict(
    model: Annotated[Path, typer.Option(help="Folder that `veilgraph train` wrote.")],
    graph: Annotated[
        Path, typer.Option(help="Public graph as it is now: edge table, .csv or .parquet, or folder of shards.")
    ],
    out: Annotated[
        Path, typer.Option(help="Predictions to write: table, .csv or .parquet; of shards, a folder of shards too.")
    ],
    nodes: Annotated[Path | None, typer.Option(help="Nodes to predict: table with column 'id'; default: all.")] = None,
    store: Annotated[
        str | None, typer.Option(help="Store of the reports as they are now; default: the reports of the training.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Probability with which a set holds the true class; default: 0.9.")
    ] = None,
    certain: Annotated[float, typer.Option(help="Least probability of an answer that is certain enough.")] = 0.8,
    without: Annotated[
        str,
        typer.Option(
            help="People to leave out: 'silent' (no report), 'withdrawn' (by --store), or both: 'withdrawn,silent'."
        ),
    ] = "",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Predict classes of nodes from their neighbourhoods, with or without a report of the node itself.

    Everyone in the graph is predicted, also who sent nothing or has withdrawn; --without leaves them out.
    """
    with needs_extra("server"):
        _start_workers(graph)
        from veilgraph.deploy import Model, predict_nodes
        from veilgraph.deploy.model_folder import is_shard_model
        from veilgraph.deploy.prediction import (
            COVERAGE,
            LeftOut,
            check_table_format,
            count_set_sizes,
            write_prediction_shards,
        )
        from veilgraph.deploy.stored_reports import withdrawn_since
    from veilgraph.graph import read_ids
    from veilgraph.graph.shards import read_graph

    as_shards = graph.is_dir() and nodes is None and not out.suffix
    if as_shards and ("RANK" in os.environ or is_shard_model(model)):
        if without:
            raise RunError("--without needs a model of one process: leave it out, and drop the rows without a report")
        _predict_shards(model, graph, out, store=store, coverage=coverage, certain=certain, device=device, json=as_json)
        return
    if not as_shards:
        check_table_format(out)
    loaded = Model.load(model, device=device)
    if is_shard_model(model):
        raise RunError(
            f"{model} was trained by several processes on shards: give them as --graph, and a folder as --out"
        )
    wanted = None if nodes is None else [str(node) for node in read_ids(nodes)]
    found = predict_nodes(
        loaded,
        read_graph(graph),
        nodes=wanted,
        store=store,
        coverage=coverage,
        certain=certain,
        without=cast(list[LeftOut], [each.strip() for each in without.split(",") if each.strip()]),
        watch=show_progress,
    )
    write_prediction_shards(found, graph, out) if as_shards else found.write(out)
    others = 0 if nodes is not None or without else len(set(loaded.nodes or ()).difference(found.nodes))
    sets = _describe_sets(count_set_sizes(found.sets), loaded, COVERAGE if coverage is None else coverage)
    withdrawn = None if store is None else withdrawn_since(store, loaded)
    if as_json:
        counts = {"nodes": len(found), "nodes_of_training_left_out": others, "certain": int(found.certain.sum())}
        echo_json({"file": str(out)} | counts | {"certain_from": certain, "sets": sets, "withdrawn_since": withdrawn})
        return
    echo(f"Predicted {counted(len(found), 'node')}: {out}")
    echo(_certain_line(certain, int(found.certain.sum()), sets))
    _print_sets(sets)
    if others:
        echo(f"Not in {graph}: {counted(others, 'node')} of the training; --nodes predicts them too.")
    _print_withdrawals(withdrawn)


def _predict_shards(
    model: Path,
    graph: Path,
    out: Path,
    *,
    store: str | None,
    coverage: float | None,
    certain: float,
    device: str,
    json: bool,
) -> None:
    """Predict all nodes of shards, together with the other processes if there are some."""
    from veilgraph.deploy import predict_shards
    from veilgraph.deploy.prediction import COVERAGE

    if store is not None:
        raise RunError("--store needs a model of one process: leave it out; reports are those of the shards")
    found = predict_shards(model, graph, out, device=device, coverage=coverage, certain=certain, watch=show_progress)
    if found is None:  # another process leads and prints
        return
    loaded, answers = found
    sets = _describe_sets(answers.set_sizes, loaded, COVERAGE if coverage is None else coverage)
    if json:
        counts = {"nodes": loaded.facts["nodes"], "certain": answers.certain, "certain_from": certain}
        echo_json({"file": str(out)} | counts | {"sets": sets})
        return
    echo(f"Predicted {counted(loaded.facts['nodes'], 'node')}: {out}")
    echo(_certain_line(certain, answers.certain, sets))
    _print_sets(sets)


def _certain_line(certain: float, answers: int, sets: dict[str, float] | None) -> str:
    one_class = "" if sets is None else " and one class in the set"
    return f"Certain enough, with a probability of {certain:g} or more{one_class}: {counted(answers, 'answer')}."


def _describe_sets(sizes: list[int] | None, model: Model, coverage: float) -> dict[str, float] | None:
    """Return what is said about sets, given the number of nodes with a set of each size; None without sets."""
    if sizes is None or not sum(sizes):
        return None
    return {
        "coverage": coverage,
        "standard_error": round(model.method.conformal_sets().standard_error(coverage), 6),
        "classes": len(sizes) - 1,
        "mean_size": sum(size * nodes for size, nodes in enumerate(sizes)) / sum(sizes),
        "single_class": sizes[1] / sum(sizes),
    }


def _print_sets(sets: dict[str, float] | None) -> None:
    if sets is None:
        return
    echo(
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


def _print_training(model: Model, content: dict[str, Any]) -> None:
    facts = model.facts
    features = f"{counted(facts['feature_reports'], 'feature report')} and " if facts["feature_reports"] else ""
    held_out = f", without {facts['held_out']:,} that are held out" if facts["held_out"] else ""
    labels = counted(facts["label_reports"] - facts["held_out"], "label report")
    echo(f"Trained {facts['method']} on {features}{labels} of {counted(facts['nodes'], 'node')}{held_out}.")
    if answers := facts.get("neighbour_answers"):
        echo(f"Answers about neighbours, wave by wave: {', '.join(f'{each:,}' for each in answers)}.")
    if withdrawals := facts.get("withdrawals"):
        echo(f"Left out: {counted(withdrawals, 'person', 'people')} who withdrew.")
    if waves := facts.get("waves"):
        of_each = "all their reports of the series together" if waves == "all" else "their latest report of the series"
        echo(f"Of each person counts one answer to each question, from {of_each}.")
    if facts["resumed_after_epochs"]:
        echo(f"Continued after epoch {facts['resumed_after_epochs']:,} of an earlier run.")
    for suspicion in facts["screening"]["suspicions"]:
        flagged, expected, beyond = (suspicion[key] for key in ("flagged", "expected", "beyond_chance"))
        fate = "left out" if facts["screening"]["excluded"] else "kept, --screen leaves them out"
        if not beyond:
            fate = "kept, no report is implausible by itself"
        elif beyond < flagged:
            fate = f"{beyond:,} beyond chance: {fate}"
        echo(f"{flagged:,} implausible ({suspicion['kind']}), {expected:.3g} expected by chance at most: {fate}")
    if shares := facts["plausibility"]["shares"]:
        alarms = [share for share in shares if share["verdict"] != "plausible"]
        for share in alarms:
            echo(f"ALARM: {share['sentence']}")
        echo(f"{len(shares) - len(alarms):,} of {len(shares):,} declared class shares are plausible.")
    if contamination := facts["contamination"]:
        echo(contamination["sentence"])
    for line in _accuracy_lines(content):
        echo(line)
    for name, estimate in facts.get("estimated_accuracy", {}).items() if content["judged_by"] != "held out" else ():
        shown = Estimate.normal(estimate["accuracy"], estimate["standard_error"], reports=facts["held_out"])
        echo(f"Held out: accuracy of {name} {shown.text}, from {counted(shown.reports, 'randomized label')}.")
    for sentence in model.campaign.guarantee.in_words(theorem_1=False):
        echo(sentence)
