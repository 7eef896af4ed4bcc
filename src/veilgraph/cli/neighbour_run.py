"""`veilgraph run --private-neighbours`: what can be learned if nobody holds the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.output import Facts, Sentence


def run_neighbours(
    dataset: str, data_dir: Path | None, out: Path | None, *, epsilon_y: float, **settings: Any
) -> Facts:
    """Simulate answers about private neighbour lists, and draw accuracy against the edge epsilon.

    Args:
        dataset: name or path of the records.
        data_dir: folder of data sets.
        out: folder of results; None: named by the settings.
        epsilon_y: budget of the label.
        settings: what else `NeighbourConfiguration` takes; those that are None have its defaults.
    """
    with needs_extra("lab"):
        from veilgraph.datasets import load
        from veilgraph.experiments.neighbour_curve import EDGE_EPSILONS, NeighbourConfiguration, run_neighbour_curve
        from veilgraph.pages.neighbour_page import headline, write_neighbour_page
    given = {name: value for name, value in settings.items() if value is not None}
    epsilons = tuple(given.pop("edge_epsilons", EDGE_EPSILONS))
    configuration = NeighbourConfiguration(epsilon_y=epsilon_y, edge_epsilons=epsilons, **given)
    private, epsilon_x = load(dataset, data_dir), configuration.epsilon_x
    asked = "" if epsilon_x is None else f"-x{epsilon_x:g}-m{configuration.sampled}"
    folder = out or Path("runs") / f"{private.name}-neighbours-y{epsilon_y:g}{asked}"
    with show_progress("run") as progress:
        result = run_neighbour_curve(private, configuration, folder, progress=progress)
    page = write_neighbour_page(result, folder)
    sentences: list[Sentence] = [_curve_table(result), headline(result), f"The page is {page}."]
    return Facts(result | {"folder": str(folder)}, sentences)


def _curve_table(result: dict[str, Any]) -> Table:
    from veilgraph.experiments.neighbour_design import ANSWERS
    from veilgraph.pages.formatting import accuracy_text
    from veilgraph.pages.neighbour_page import spread_in_words

    table = Table(title=f"Accuracy on silent people. {spread_in_words(result['seeds'])}", title_justify="left")
    table.add_column("edge epsilon")
    for answer in result["answers"]:
        table.add_column(f"{answer}\n{ANSWERS[answer]}", justify="right")
    for i, total in enumerate(result["edge_epsilons"]):
        table.add_row(f"{total:g}", *(accuracy_text(points[i]) for points in result["answers"].values()))
    return table
