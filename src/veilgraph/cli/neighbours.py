"""`veilgraph neighbours`: what can be learned if nobody holds the graph, how to spend a total on it, and its waves."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.cli.completion import complete_dataset
from veilgraph.errors import CampaignError, RunError
from veilgraph.privacy import belief_table
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram, RandomizedNeighbourList
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.campaign.neighbour_series import Answer
    from veilgraph.experiments.neighbour_design import NeighbourDesign
    from veilgraph.experiments.neighbour_planner import NeighbourPlan, PlannedDesign, SimulatedAccuracies

neighbours_app = typer.Typer(help="Private neighbours: collections in which nobody holds the graph.")

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
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results; default: runs/NAME-neighbours-y2 with --epsilon-y 2, and then -x1-m4 with "
            "--epsilon-x 1 --sampled 4."
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of fetched data sets, and of your own.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate answers about private neighbour lists, and draw accuracy against the edge epsilon."""
    with needs_extra("lab"):
        from veilgraph.datasets import load
        from veilgraph.experiments.neighbour_curve import EDGE_EPSILONS, NeighbourConfiguration, run_neighbour_curve
        from veilgraph.experiments.neighbour_design import ANSWERS
        from veilgraph.pages.formatting import accuracy_text
        from veilgraph.pages.neighbour_page import headline, spread_in_words, write_neighbour_page
    configuration = NeighbourConfiguration(
        epsilon_y=epsilon_y,
        edge_epsilons=tuple(edge_epsilon or EDGE_EPSILONS),
        epsilon_x=epsilon_x,
        sampled=sampled,
        seeds=seeds,
        first_seed=first_seed,
    )
    private = load(dataset, data_dir)
    asked = "" if epsilon_x is None else f"-x{epsilon_x:g}-m{sampled}"
    folder = out or Path("runs") / f"{private.name}-neighbours-y{epsilon_y:g}{asked}"
    with show_progress("neighbours") as progress:
        result = run_neighbour_curve(private, configuration, folder, progress=progress)
    page = write_neighbour_page(result, folder)
    if as_json:
        echo_json(result | {"folder": str(folder)})
        return
    table = Table(title=f"Accuracy on silent people. {spread_in_words(result['seeds'])}", title_justify="left")
    table.add_column("edge epsilon")
    for answer in result["answers"]:
        table.add_column(f"{answer}\n{ANSWERS[answer]}", justify="right")
    for i, total in enumerate(result["edge_epsilons"]):
        table.add_row(f"{total:g}", *(accuracy_text(points[i]) for points in result["answers"].values()))
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
    answer: Annotated[
        str, typer.Option(help="histogram and list protect one entry of a list, class any two lists.")
    ] = "histogram",
    cap: Annotated[
        int | None, typer.Option(help="Histogram: neighbours that count for each class at most; protects whole lists.")
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option(help="Each person answers one of this number of waves; with the first wave alone."),
    ] = None,
    purpose: Annotated[str | None, typer.Option(help="Purpose of the wave; default: as before.")] = None,
    contact: Annotated[str | None, typer.Option(help="Contact for participants; default: as before.")] = None,
    retention: Annotated[
        str | None, typer.Option(help="Time after which you delete all reports of the series; only an earlier one.")
    ] = None,
    zone: Annotated[str, typer.Option(help="Time zone of dates and times without an offset.")] = "UTC",
    as_json: Json = False,
) -> None:
    """Publish the next wave of a series: the document that devices answer, and a table from all that is stored.

    A list needs no table, and is the only wave of its series.
    """
    if turns is not None and answer == "list":
        raise RunError("--turns is for histogram and class: a list is the only wave of its series, for everybody")
    if turns is not None and turns < 2:
        raise RunError(f"--turns is {turns}: give 2 or more, or leave it out, and everybody answers every wave")
    with needs_extra("server"):
        from veilgraph.deploy.publish_wave import publish_wave
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.notice import read_time, time_in_words
    from veilgraph.campaign.series_folder import wave_path
    from veilgraph.graph.shards import read_graph

    until = read_time(closes, zone=zone)
    if until <= datetime.now(UTC):
        raise CampaignError(f"closes is {closes}, which is in the past: give a later time")
    asked, people = Campaign.from_json(campaign.read_bytes()), read_graph(graph)
    made, perturbed = publish_wave(
        store,
        asked,
        people,
        _answer(answer, asked.schema.num_classes, people.num_nodes, edge_epsilon, cap),
        tables=tables,
        out=out,
        turns=turns,
        closes=until,
        purpose=purpose,
        contact=contact,
        retention=None if retention is None else read_time(retention, zone=zone, name="retention"),
        watch=show_progress,
    )
    learned = [int(wave.has_answer.sum()) for wave in perturbed.neighbour_waves]
    series = made.neighbour_series
    answering = sum(map(series.is_turn_of, people.names))
    is_taken_up, out = out is None, out or wave_path(tables, series.wave)
    if as_json:
        echo_json(
            {
                "id": made.id,
                "series": series.first,
                "wave": series.wave,
                "turns": series.turns,
                "asked": answering,
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
        *([] if series.turns is None else [_turn_in_words(series.turns, answering, people.num_nodes)]),
        f"Devices randomize the list itself, and need the file of people alone: {tables / series.people}.people. It is "
        "the only wave of the series."
        if series.table is None
        else f"Its table is learned from {counted(int(perturbed.has_label.sum()), 'label report')}{answers}: "
        f"{tables / series.table}.beliefs.",
        *made.guarantee_in_words,
        f"Open until {time_in_words(made.closes)}. Written to {out}.",
        f"A collector that runs with --tables {tables} takes it up within seconds."
        if is_taken_up
        else f"Serve it with --campaign {out} --tables {tables}.",
    )


def _turn_in_words(turns: int, answering: int, people: int) -> str:
    return f"Each person answers one of {turns} waves, and this is the turn of {answering:,} of {people:,} people."


def _answer(name: str, classes: int, people: int, epsilon: float, cap: int | None) -> Answer:
    if name == "class":
        if cap is not None:
            raise RunError("--cap is for the histogram: the class protects whole lists without one")
        return NeighbourhoodClass(classes, epsilon)
    if name == "list":
        if cap is not None:
            raise RunError("--cap is for the histogram: a randomized list protects no whole list, with or without one")
        return RandomizedNeighbourList(people, epsilon)
    if name != "histogram":
        raise RunError(f"answer is '{name}': choose histogram, class or list")
    return NeighbourhoodHistogram(classes, epsilon, finest_scale(classes), cap)


@neighbours_app.command("plan")
def plan_command(
    epsilon: Annotated[
        float, typer.Option(help="Total of label, list and features, under the relation of the answer.")
    ],
    people: Annotated[int, typer.Option(help="Number of people.")],
    degree: Annotated[float, typer.Option(help="How many neighbours a person lists, roughly.")],
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    answer: Annotated[
        str | None,
        typer.Option(
            help="histogram or list for one entry of a list, class for any two lists. Default: the better of histogram "
            "and list."
        ),
    ] = None,
    homophily: Annotated[
        list[float] | None, typer.Option(help="Share of relationships within a class; repeat it. Default 0.6, 0.85.")
    ] = None,
    epsilon_x: EpsilonX = None,
    sampled: Sampled = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    as_json: Json = False,
) -> None:
    """Recommend answer, waves and budgets for a total, from public information alone."""
    with needs_extra("lab"):
        from veilgraph.experiments.neighbour_design import ANSWERS, ONE_ENTRY
        from veilgraph.experiments.neighbour_planner import HOMOPHILIES, plan_neighbours
    from veilgraph.campaign import people_file

    asked: Any = {
        "people": people,
        "mean_degree": degree,
        "num_classes": classes,
        "total_epsilon": epsilon,
        "answers": ONE_ENTRY if answer is None else (answer,),
        "homophilies": tuple(homophily or HOMOPHILIES),
        "seed": seed,
    }
    with show_progress("plan") as progress:
        found = plan_neighbours(**asked, epsilon_x=epsilon_x, sampled=sampled, progress=progress)
        bare = found if epsilon_x is None else plan_neighbours(**asked, progress=progress)
    best, sizes = found.recommended.design, (2,) * (sampled or 0)
    downloads = {
        "table": None if best.answer == "list" else belief_table.file_size(people, classes),
        "people": people_file.file_size(people),
    }
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
                **_reached_in_json(each.reached),
                "list": None if each.facts is None else asdict(each.facts),
                "guarantee": each.design.guarantee(classes, people, sizes).as_dict(),
            }
            for each in found.designs
        ]
        echo_json(
            {
                "recommended": designs[found.designs.index(found.recommended)],
                "as_good": None if found.rival is None else designs[found.designs.index(found.rival)],
                "within_noise": [designs[found.designs.index(each)] for each in found.within_noise],
                "designs": designs,
                "no_list": found.no_list,
                "without_features": {
                    "title": bare.recommended.design.title,
                    **_reached_in_json(bare.recommended.reached),
                },
                "floor": _reached_in_json(found.floor),
                "homophilies": list(homophily or HOMOPHILIES),
                "drawn_people": found.drawn_people,
                "seed": seed,
                "download_bytes": downloads,
                "next": _next_commands(best),
            }
        )
        return
    told = "" if epsilon_x is None else f", {counted(len(sizes), 'feature')} at {epsilon_x:g} each"
    echo(
        f"Recommended: label {best.epsilon_y:g}{told}, then {best.title}.",
        *best.guarantee(classes, people, sizes).in_words(),
    )
    table = Table(title="\nDesigns: epsilons with their relation, and accuracy in simulations", title_justify="left")
    shares = " / ".join(f"{100 * each:.0f}" for each in homophily or HOMOPHILIES)
    table.add_column("label,\nany two\nlabels", justify="right")
    table.add_column(f"neighbours,\n{ANSWERS[best.answer]}")
    table.add_column("accuracy, %", justify="right")
    table.add_column("runs", justify="right")
    for each in found.designs:
        simulations = str(len(each.reached.draws))
        table.add_row(f"{each.design.epsilon_y:g}", each.design.title, _accuracies(each.reached), simulations)
    table.add_row("", "the label alone (the floor)", _accuracies(found.floor), str(len(found.floor.draws)))
    Console().print(table)
    echo(
        f"Accuracies are for {shares} % of the relationships within a class: mean ± standard error over the runs of a "
        f"row, on drawn graphs of {found.drawn_people:,} people, seed {seed}. 75 % of the people report a label, and "
        "the others are predicted. The label alone gives them the most frequent class.",
        *_comparison_in_words(found),
        _features_in_words(found.recommended, bare.recommended),
        *_costs_in_words(found.recommended, downloads),
        *_next_in_words(best),
    )


def _accuracies(reached: SimulatedAccuracies) -> str:
    return " / ".join(
        f"{100 * mean:.0f}" if error is None else f"{100 * mean:.0f} ± {100 * error:.0f}"
        for mean, error in zip(reached.means, reached.standard_errors, strict=True)
    )


def _reached_in_json(reached: SimulatedAccuracies) -> dict[str, Any]:
    """Return means and standard errors at each homophily, and the number of simulations behind each."""
    return {
        "accuracies": list(reached.means),
        "standard_errors": list(reached.standard_errors),
        "simulations": len(reached.draws),
    }


def _comparison_in_words(found: NeighbourPlan) -> list[str]:
    """Say which designs were left out or given up, and which are as good as the recommended one."""
    sentences = [] if found.no_list is None else [f"No list was tried: {found.no_list}."]
    if any(len(each.reached.draws) < found.simulations for each in found.designs):
        sentences.append("A design with fewer runs was behind in these, and was not simulated further.")
    if found.within_noise:
        sentences.append(
            f"As good, within what {found.simulations} simulations can tell (95 % interval of the paired difference): "
            f"{'; '.join(_with_label(each) for each in found.within_noise)}. The recommended one has "
            "the fewest waves among those of its answer."
        )
    if (rival := found.rival) is not None and rival not in found.within_noise:
        sentences.append(
            f"Simulations cannot tell {_with_label(rival)} from it: the mean accuracies differ by less than 5 "
            "points, and drawn graphs are more even than those of people."
        )
    return sentences


def _with_label(planned: PlannedDesign) -> str:
    return f"{planned.design.title} with label {planned.design.epsilon_y:g}"


def _features_in_words(best: PlannedDesign, bare: PlannedDesign) -> str:
    """Say what features cost, or that they are left out."""
    design = best.design
    if design.epsilon_x is None or design.sampled is None:
        return (
            "Features are left out: each that a person answers would cost its own epsilon at user level (any two "
            "records), and on public graphs they gave less than they cost. Ask for them with --epsilon-x and --sampled."
        )
    return (
        f"The features cost {design.epsilon_x * design.sampled:g} of the total at user level (any two records). "
        f"Accuracies are without what they may tell; label and list alone reach {_accuracies(bare.reached)} % with the "
        "whole total."
    )


def _costs_in_words(best: PlannedDesign, downloads: dict[str, int | None]) -> list[str]:
    """Say what a device downloads and reports."""
    people, table = downloads["people"] or 0, downloads["table"]
    if table is not None:
        wave, later = "the first wave", f" Each later wave takes {table:,} bytes."
        if best.design.in_turn:
            wave, later = "the one wave that it answers", ""
        return [
            f"A device downloads {table + people:,} bytes for {wave}, whole files that are the same for everybody: "
            f"what is believed, and whose row is whose.{later}"
        ]
    sentences = [f"A device downloads {people:,} bytes, a file that is the same for everybody: whose row is whose."]
    if (facts := best.facts) is not None:
        sentences.append(
            f"A report names {facts.names:,.0f} people on average, in {facts.answer_bytes:,} bytes for any list. "
            f"A pair counts if both name each other: {facts.false_neighbours:,.1f} false neighbours for each person."
        )
    return sentences


def _next_commands(design: NeighbourDesign) -> list[str] | None:
    """Return the commands that collect a design; None where a series cannot."""
    if design.epsilon_x is not None:
        return None
    turns = f" --turns {len(design.edge_epsilons)}" if design.in_turn else ""
    options = [turns] + [""] * (len(design.edge_epsilons) - 1)  # later waves inherit it
    return [
        f"veilgraph campaign new --schema schema.toml --graph people.csv --private-neighbours --answer {design.answer} "
        f'--epsilon-y {design.epsilon_y:g} --purpose "..." --contact "..." --closes 2030-12-31 --out campaign.json',
        *(
            f"veilgraph neighbours publish campaign.json --store sqlite:///reports.db --graph people.csv --answer "
            f"{design.answer} --edge-epsilon {epsilon:g}{option} --closes 2030-12-31 --tables tables"
            for epsilon, option in zip(design.edge_epsilons, options, strict=True)
        ),
    ]


def _next_in_words(design: NeighbourDesign) -> list[str]:
    """Say how to collect a design."""
    commands = _next_commands(design)
    if commands is None:
        return ["A series asks for no features: this design can be simulated, and not collected."]
    return [
        "",
        "Next, with your own purpose, contact and dates; publish when people have answered what was asked before:",
        *(f"  {each}" for each in commands),
    ]
