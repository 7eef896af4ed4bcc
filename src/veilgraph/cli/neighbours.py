"""`veilgraph neighbours`: what can be learned if nobody holds the graph, how to spend a total on it, and its waves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.cli.completion import complete_dataset
from veilgraph.errors import RunError
from veilgraph.privacy import belief_table
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.experiments.neighbour_planner import KnownWay, PlannedDesign

neighbours_app = typer.Typer(help="Private neighbours: collections in which nobody holds the graph.")

AnswerName = Annotated[str, typer.Option(help="histogram protects one entry of a list, class any two lists.")]
EpsilonX = Annotated[
    float | None, typer.Option(help="Budget of each sampled feature, user level; default: no features.")
]
Sampled = Annotated[int | None, typer.Option(help="Number of features to spend it on; with --epsilon-x.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@neighbours_app.command("run")
def run_neighbours(
    dataset: Annotated[
        str,
        typer.Option(help="A name that `veilgraph data list` shows, or a path.", autocompletion=complete_dataset),
    ] = "voters",
    epsilon_y: Annotated[float, typer.Option(help="Budget of the label, any two labels.")] = 2.0,
    edge_epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Budget of a person's neighbour list; repeat it. Default: 1, 2, 4 and 8."),
    ] = None,
    epsilon_x: EpsilonX = None,
    sampled: Sampled = None,
    seeds: Annotated[int, typer.Option(help="Independent repetitions.")] = 3,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of results; default: runs/DATASET-neighbours.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of fetched data sets, and of your own.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate waves of answers about private neighbour lists, and draw accuracy against the edge epsilon."""
    import json

    with needs_extra("lab"):
        from veilgraph.datasets import load
        from veilgraph.experiments.neighbour_curve import EDGE_EPSILONS, neighbour_curve
        from veilgraph.pages.neighbour_page import headline, write_neighbour_page
    private = load(dataset, data_dir)
    asked = "" if epsilon_x is None else f"-x{epsilon_x:g}-m{sampled}"
    folder = out or Path("runs") / f"{private.name}-neighbours-y{epsilon_y:g}{asked}"
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} exists and is not empty: choose another --out")
    with show_progress("neighbours") as progress:
        result = neighbour_curve(
            private,
            epsilon_y=epsilon_y,
            edge_epsilons=tuple(edge_epsilon or EDGE_EPSILONS),
            epsilon_x=epsilon_x,
            sampled=sampled,
            seeds=seeds,
            first_seed=first_seed,
            progress=progress,
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "result.json", json.dumps(result, indent=2) + "\n")
    page = write_neighbour_page(result, folder)
    if as_json:
        echo_json(result | {"folder": str(folder)})
        return
    table = Table(title="Accuracy on silent people", title_justify="left")
    table.add_column("edge epsilon")
    for name in ("histogram\none entry", "class\nany two lists"):
        table.add_column(name, justify="right")
    for i, total in enumerate(result["edge_epsilons"]):
        table.add_row(f"{total:g}", *(f"{100 * each[i]['accuracy_mean']:.1f}" for each in result["answers"].values()))
    Console().print(table)
    echo(headline(result), f"The page is {page}.")


@neighbours_app.command("publish")
def publish(
    campaign: Annotated[
        Path,
        typer.Argument(
            help="A document of the series, .json; the newest wave in --tables is continued.", metavar="CAMPAIGN"
        ),
    ],
    store: Annotated[str, typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...")],
    graph: Annotated[Path, typer.Option(help="The people of the series: a table with the column id alone.")],
    edge_epsilon: Annotated[float, typer.Option(help="Budget of the next wave, under the relation of its answer.")],
    closes: Annotated[str, typer.Option(help="Time until which answers are accepted, such as 2027-01-31.")],
    tables: Annotated[
        Path, typer.Option(help="Folder of the series: tables, and documents of waves; created if needed.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The document of the next wave to write, .json; default: wave-N.json in --tables, where a running "
            "collector takes it up."
        ),
    ] = None,
    answer: AnswerName = "histogram",
    cap: Annotated[
        int | None, typer.Option(help="Histogram: neighbours that count for each class at most; protects whole lists.")
    ] = None,
    purpose: Annotated[str | None, typer.Option(help="Purpose of the wave; default: as before.")] = None,
    contact: Annotated[str | None, typer.Option(help="Contact for participants; default: as before.")] = None,
    retention: Annotated[
        str | None, typer.Option(help="Time after which you delete all reports of the series; only an earlier one.")
    ] = None,
    zone: Annotated[str, typer.Option(help="Time zone of dates and times without an offset.")] = "UTC",
    as_json: Json = False,
) -> None:
    """Publish the next wave of a series: a table from all that is stored, and the document that devices answer."""
    with needs_extra("server"):
        from veilgraph.deploy.publish_wave import publish_wave
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.notice import read_time, time_in_words
    from veilgraph.campaign.series_folder import wave_path
    from veilgraph.graph.shards import read_graph

    asked = Campaign.from_json(campaign.read_bytes())
    made, perturbed = publish_wave(
        store,
        asked,
        read_graph(graph),
        _answer(answer, asked.schema.num_classes, edge_epsilon, cap),
        tables=tables,
        out=out,
        closes=read_time(closes, zone=zone),
        purpose=purpose,
        contact=contact,
        retention=None if retention is None else read_time(retention, zone=zone, name="retention"),
        watch=show_progress,
    )
    learned = [int(wave.has_answer.sum()) for wave in perturbed.neighbour_waves]
    series = made.neighbour_series
    is_taken_up, out = out is None, out or wave_path(tables, series.wave)
    if as_json:
        echo_json(
            {
                "id": made.id,
                "series": series.first,
                "wave": series.wave,
                "table": series.table,
                "people": series.people,
                "label_reports": int(perturbed.has_label.sum()),
                "answers": learned,
                "guarantee": made.guarantee.as_dict(),
                "wave_guarantee": series.wave_guarantee.as_dict(),
                "out": str(out),
            }
        )
        return
    answers = f" and {sum(learned):,} answers of {counted(len(learned), 'wave')}" if learned else ""
    echo(
        f"Wave {series.wave} of series {series.first}: campaign {made.id}.",
        f"Its table is learned from {counted(int(perturbed.has_label.sum()), 'label report')}{answers}: "
        f"{tables / series.table}.beliefs.",
        *made.guarantee_in_words,
        f"Open until {time_in_words(made.closes)}. Written to {out}.",
        f"A collector that runs with --tables {tables} takes it up within seconds."
        if is_taken_up
        else f"Serve it with --campaign {out} --tables {tables}.",
    )


def _answer(name: str, classes: int, epsilon: float, cap: int | None) -> NeighbourhoodClass | NeighbourhoodHistogram:
    if name == "class":
        if cap is not None:
            raise RunError("--cap is for the histogram: the class protects whole lists without one")
        return NeighbourhoodClass(classes, epsilon)
    if name != "histogram":
        raise RunError(f"answer is '{name}': choose histogram or class")
    return NeighbourhoodHistogram(classes, epsilon, finest_scale(classes), cap)


@neighbours_app.command("plan")
def plan_command(
    epsilon: Annotated[
        float, typer.Option(help="Total of label, list and features, under the relation of the answer.")
    ],
    people: Annotated[int, typer.Option(help="Number of people.")],
    degree: Annotated[float, typer.Option(help="How many neighbours a person lists, roughly.")],
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    answer: AnswerName = "histogram",
    homophily: Annotated[
        list[float] | None, typer.Option(help="Share of relationships within a class; repeat it. Default 0.6, 0.85.")
    ] = None,
    epsilon_x: EpsilonX = None,
    sampled: Sampled = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    as_json: Json = False,
) -> None:
    """Recommend waves and budgets for a total, from public information alone."""
    with needs_extra("lab"):
        from veilgraph.experiments.grid import HISTOGRAM
        from veilgraph.experiments.neighbour_planner import HOMOPHILIES, plan_known_way, plan_neighbours
    from veilgraph.campaign import people_file

    asked: Any = {
        "people": people,
        "mean_degree": degree,
        "num_classes": classes,
        "total_epsilon": epsilon,
        "homophilies": tuple(homophily or HOMOPHILIES),
        "seed": seed,
    }
    with show_progress("plan") as progress:
        found = plan_neighbours(**asked, answer=answer, epsilon_x=epsilon_x, sampled=sampled, progress=progress)
        bare = found if epsilon_x is None else plan_neighbours(**asked, answer=answer, progress=progress)
        known = plan_known_way(**asked) if answer == HISTOGRAM else None
    best, sizes = found[0].design, (2,) * (sampled or 0)
    downloads = {"table": belief_table.file_size(people, classes), "people": people_file.file_size(people)}
    if as_json:
        designs = [
            {
                "title": each.design.title,
                "answer": each.design.answer,
                "epsilon_y": each.design.epsilon_y,
                "edge_epsilons": list(each.design.edge_epsilons),
                "in_turn": each.design.in_turn,
                "epsilon_x": epsilon_x,
                "sampled": sampled,
                "accuracies": list(each.accuracies),
                "guarantee": each.design.guarantee(classes, sizes).as_dict(),
            }
            for each in found
        ]
        beside = None if known is None else asdict(known) | {"better": known.lead(found[0]) > 0}
        echo_json(
            {
                "recommended": designs[0],
                "designs": designs,
                "without_features": {"title": bare[0].design.title, "accuracies": list(bare[0].accuracies)},
                "homophilies": list(homophily or HOMOPHILIES),
                "randomized_adjacency": beside,
                "download_bytes": downloads,
            }
        )
        return
    told = "" if epsilon_x is None else f", {counted(len(sizes), 'feature')} at {epsilon_x:g} each"
    echo(f"Recommended: label {best.epsilon_y:g}{told}, then {best.title}.", *best.guarantee(classes, sizes).in_words())
    table = Table(title="\nDesigns, in simulations", title_justify="left")
    for name in ("label", "neighbours", "accuracy"):
        table.add_column(name, justify="left" if name == "neighbours" else "right")
    for each in found:
        accuracies = " / ".join(f"{100 * one:.0f} %" for one in each.accuracies)
        table.add_row(f"{each.design.epsilon_y:g}", each.design.title, accuracies)
    Console().print(table)
    shares = " / ".join(f"{100 * each:.0f} %" for each in homophily or HOMOPHILIES)
    echo(f"Accuracies are for {shares} of the relationships within a class; 75 % of the people report a label.")
    echo(
        _features_in_words(found[0], bare[0]),
        f"A device downloads {sum(downloads.values()):,} bytes for the first wave, whole files that are the same for "
        f"everybody: what is believed, and whose row is whose. Each later wave takes {downloads['table']:,} bytes.",
        *_known_way_in_words(known, found[0]),
    )


def _features_in_words(best: PlannedDesign, bare: PlannedDesign) -> str:
    """Say what features cost, or that they are left out."""
    design = best.design
    if design.epsilon_x is None or design.sampled is None:
        return (
            "Features are left out: each that a person answers would cost its own epsilon at user level (any two "
            "records), and on public graphs they gave less than they cost. Ask for them with --epsilon-x and --sampled."
        )
    reached = " / ".join(f"{100 * one:.0f} %" for one in bare.accuracies)
    return (
        f"The features cost {design.epsilon_x * design.sampled:g} of the total at user level (any two records). "
        f"Accuracies are without what they may tell; label and list alone reach {reached} with the whole total."
    )


def _known_way_in_words(known: KnownWay | None, best: PlannedDesign) -> list[str]:
    """Say whether randomized adjacency would be the better choice, and what it costs and protects."""
    if known is None:
        return ["Randomized adjacency, the known way, protects one entry of a list and no whole list: not compared."]
    facts = (
        f"a report of {known.report_bytes:,} bytes, one bit for each person, and {known.false_neighbours:,.1f} false "
        "neighbours for each person"
    )
    if not known.accuracies:
        return [f"Randomized adjacency, the known way, would drown true neighbours: {facts}."]
    reached = " / ".join(f"{100 * one:.0f} %" for one in known.accuracies)
    verdict = ("is about as good here", "is the better choice here", "is worse here")[known.lead(best)]
    return [
        f"Randomized adjacency, the known way, {verdict}: {reached} with label {known.epsilon_y:g} and "
        f"{known.edge_epsilon:g} for each entry. It costs {facts}.",
        "It protects one entry of a list, as the histogram does, and a relationship that both ends report with twice "
        "that epsilon; whole lists are not protected. Answers in waves do not grow with the number of people.",
    ]
