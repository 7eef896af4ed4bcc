"""Command `veilgraph data`: list, describe, download and tabulate public graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.cli._common import echo, needs_extra, show_progress
from veilgraph.cli.completion import complete_public_dataset
from veilgraph.cli.options import JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.datasets import EMBEDDED, catalogue
from veilgraph.datasets.catalogue import (
    Dataset,
    Statistics,
    data_folders,
    differing,
    find_archive,
    find_dataset,
    measure,
    open_archive,
)
from veilgraph.errors import GraphError, RunError
from veilgraph.privacy.plain_text import counted

data_app = typer.Typer(help="List, describe and download public graphs.")

DataDir = Annotated[Path | None, typer.Option(help="Folder to search before VEILGRAPH_DATA and the cache folder.")]

Accuracy = tuple[float, float | None]
"""Mean and standard deviation in percent; None for the standard deviation of one seed."""

_HEADINGS = ("", "", "|V|", "|E|", "degree", "d", "zeros", "c", "d'", "zeros in d'", "accuracy")


@data_app.command("list")
def list_datasets(data_dir: DataDir = None, as_json: JsonOption = False) -> None:
    """List the data sets and their files."""
    facts = [_facts(dataset, data_dir) for dataset in _sorted()]
    shown = ("name", "nodes", "edges", "features", "path")
    rows = [[fact[key] if fact[key] is not None else "not fetched" for key in shown] for fact in facts]
    sentences = [
        *_aligned([("name", "nodes", "edges", "features", "found"), *rows]),
        f"Built in, no download needed: {', '.join(sorted(EMBEDDED))}.",
    ]
    emit(Facts(facts, sentences), as_json=as_json)


@data_app.command()
def info(
    name: Annotated[str, typer.Argument(help="Name of a data set.", autocompletion=complete_public_dataset)],
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a data set: its size, origin, licence and citation."""
    dataset = find_dataset(name)
    facts = _facts(dataset, data_dir) | {
        "title": dataset.title,
        "note": dataset.note,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "checksum": dataset.checksum,
        "differences": dict(dataset.differences),
        "origins": [asdict(origin) for origin in dataset.origins],
    }
    emit(Facts(facts, _described(dataset, facts)), as_json=as_json)


def _described(dataset: Dataset, facts: dict[str, Any]) -> Iterator[str]:
    merged = f", merged by {dataset.group} into {counted(dataset.features, 'feature')}" if dataset.group > 1 else ""
    columns = f"{counted(dataset.columns, 'binary column')}{merged}" if dataset.columns else "no features"
    yield dataset.title
    yield f"{dataset.nodes:,} nodes, {dataset.edges:,} edges, {dataset.classes} classes, {columns}"
    for key in ("note", "licence", "citation", "checksum"):
        if facts[key]:
            yield f"{key}: {facts[key]}"
    for number, reason in dataset.differences.items():
        yield f"differs from the paper in {number}: {reason}"
    for file in dataset.origins[0].files:
        yield f"origin: {file.url}"
    yield f"found: {facts['path'] or 'not fetched'}"


@data_app.command()
def fetch(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of data sets.", metavar="NAME...", autocompletion=complete_public_dataset),
    ],
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Download again even if the file is there.")] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Read originals whose SHA-256 is not known.")
    ] = False,
) -> None:
    """Download data sets from their public sources, check and convert them."""
    from veilgraph.datasets.fetch import fetch as fetch_dataset

    datasets = [find_dataset(name) for name in names]
    for dataset in datasets:
        if not force and (path := _intact(dataset, data_dir)):
            echo(f"{dataset.name}: already in {path.parent}")
            continue
        with show_progress(dataset.name) as progress:
            path = fetch_dataset(dataset, data_folders(data_dir)[0], unverified=unverified, progress=progress)
        echo(f"{dataset.name}: written to {path.parent}")


@data_app.command()
def table(
    results: Annotated[Path, typer.Option(help="Folder with the results of `veilgraph paper run table1`.")] = Path(
        "runs/paper"
    ),
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Print the paper's table of data sets: published numbers, ours, and the reasons for differences."""
    published = [dataset for dataset in _sorted() if dataset.published is not None]
    measured = {dataset.name: _measured(dataset, data_dir) for dataset in published}
    accuracies = {dataset.name: _accuracy(dataset.name, results, data_dir) for dataset in published}
    document = [_comparison(d, measured[d.name], accuracies[d.name]) for d in published]
    emit(Facts(document, _compared(published, measured, accuracies)), as_json=as_json)


def _compared(
    published: Sequence[Dataset], measured: Mapping[str, Statistics | None], accuracies: Mapping[str, Accuracy | None]
) -> Iterator[str]:
    rows: list[Sequence[object]] = [_HEADINGS]
    for dataset in published:
        rows.append([dataset.name, "paper", *_cells(dataset.published), _percent(dataset.published_accuracy)])
        if (ours := measured[dataset.name]) is not None:
            rows.append(["", "ours", *_cells(ours), _percent(accuracies[dataset.name])])
    yield from _aligned(rows)
    for dataset in published:
        if (ours := measured[dataset.name]) is None:
            yield f"{dataset.name}: not fetched; run 'veilgraph data fetch {dataset.name}'"
            continue
        for number in differing(ours, dataset.published) if dataset.published else ():
            yield f"{dataset.name}, {number}: {dataset.differences[number]}."
    yield "Accuracy is without privacy, on the columns before merging."
    if None in accuracies.values():
        yield "Our accuracy is empty where it is not computed yet: run 'veilgraph paper run table1'."


def _sorted() -> list[Dataset]:
    return [dataset for _, dataset in sorted(catalogue.known_datasets().items())]


def _facts(dataset: Dataset, data_dir: Path | None) -> dict[str, Any]:
    facts = {key: getattr(dataset, key) for key in ("name", "nodes", "edges", "columns", "features", "classes")}
    try:
        return facts | {"path": str(find_archive(dataset.name, data_dir))}
    except RunError:
        return facts | {"path": None}


def _intact(dataset: Dataset, data_dir: Path | None) -> Path | None:
    """Return the file of a data set if it exists and has the right checksum."""
    try:
        open_archive(dataset, data_dir)
    except (GraphError, RunError):
        return None
    return find_archive(dataset.name, data_dir)


def _measured(dataset: Dataset, data_dir: Path | None) -> Statistics | None:
    """Compute the statistics of a data set; None if its file is missing. A damaged file is an error."""
    try:
        return measure(open_archive(dataset, data_dir), group=dataset.group)
    except RunError:
        return None


def _accuracy(name: str, results: Path, data_dir: Path | None) -> Accuracy | None:
    """Return the accuracy of the non-private GNN if `paper run table1` has finished it for this data set."""
    if not results.exists():
        return None
    with needs_extra("lab"):
        from veilgraph.experiments.cells import DatasetLoader
        from veilgraph.experiments.grid import load_experiment
        from veilgraph.experiments.results import ResultStore, read_rows
    try:
        table1 = load_experiment("table1").only(datasets=[name])
        row = read_rows(table1, ResultStore(results), data=DatasetLoader(data_dir))[0]
    except RunError:  # not run, or the data set is not on this machine
        return None
    return 100 * row.mean, None if row.std is None else 100 * row.std


def _comparison(dataset: Dataset, measured: Statistics | None, accuracy: Accuracy | None) -> dict[str, Any]:
    published = asdict(dataset.published) if dataset.published else {}
    return {
        "name": dataset.name,
        "published": published | {"accuracy": dataset.published_accuracy},
        "measured": None if measured is None else asdict(measured) | {"accuracy": accuracy},
        "differences": dict(dataset.differences),
    }


def _cells(statistics: Statistics | None) -> list[object]:
    return [] if statistics is None else list(asdict(statistics).values())


def _percent(accuracy: Accuracy | None) -> str:
    if accuracy is None:
        return ""
    mean, spread = accuracy
    return f"{mean:.1f} " + ("(one seed)" if spread is None else f"± {spread:.1f}")


def _aligned(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield rows as lines with aligned columns, numbers to the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    numeric = [any(text[:1].isdigit() for text in column) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = zip(row, widths, numeric, strict=True)
        yield "  ".join(f"{t:>{w}}" if right else f"{t:<{w}}" for t, w, right in cells).rstrip()


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
