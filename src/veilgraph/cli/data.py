"""`veilgraph lab data`: list, describe, download and tabulate public graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.cli._common import needs_extra, show_progress
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

Accuracy = tuple[float, float | None]
"""Mean and standard deviation in percent; None for the standard deviation of one seed."""

_HEADINGS = ("", "", "|V|", "|E|", "degree", "d", "zeros", "c", "d'", "zeros in d'", "accuracy")


def data(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets to describe or to fetch.", metavar="NAME...", autocompletion=complete_public_dataset
        ),
    ] = None,
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="Download them, and check and convert them; into VEILGRAPH_DATA if it is set."),
    ] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="With --fetch: read originals whose SHA-256 is not known.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Print the paper's table of data sets beside ours, with accuracies of `veilgraph lab paper table1` in "
            "this folder, such as runs/paper."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the public graphs and their files; with names, describe them: size, origin, licence and citation."""
    if results is not None and (names or fetch):
        raise RunError("--results is about all data sets of the paper: leave out the names and --fetch")
    if fetch and not names:
        raise RunError(f"which data sets? give their names after 'veilgraph lab data': {', '.join(_known())}")
    if unverified and not fetch:
        raise RunError("--unverified would change nothing: give --fetch, or leave it out")
    chosen = [find_dataset(name) for name in names or ()]
    if fetch:
        found = _fetched(chosen, unverified=unverified)
    elif results is not None:
        found = _table(results)
    else:
        found = _details(chosen) if chosen else _overview()
    emit(found, as_json=as_json)


def _overview() -> Facts:
    facts = [_facts(dataset) for dataset in _sorted()]
    shown = ("name", "nodes", "edges", "features", "path")
    rows = [[fact[key] if fact[key] is not None else "not fetched" for key in shown] for fact in facts]
    sentences = [
        *_aligned([("name", "nodes", "edges", "features", "found"), *rows]),
        f"Built in, no download needed: {', '.join(sorted(EMBEDDED))}.",
    ]
    return Facts(facts, sentences)


def _details(datasets: Sequence[Dataset]) -> Facts:
    facts = [
        _facts(dataset)
        | {
            "title": dataset.title,
            "note": dataset.note,
            "licence": dataset.licence,
            "citation": dataset.citation,
            "checksum": dataset.checksum,
            "differences": dict(dataset.differences),
            "origins": [asdict(origin) for origin in dataset.origins],
        }
        for dataset in datasets
    ]
    return Facts(facts, [line for each, fact in zip(datasets, facts, strict=True) for line in _described(each, fact)])


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


def _fetched(datasets: Sequence[Dataset], *, unverified: bool) -> Facts:
    """Download the data sets that are not there yet; a damaged file counts as none."""
    from veilgraph.datasets.fetch import fetch

    facts, sentences = [], []
    for dataset in datasets:
        path = _intact(dataset)
        where = "already in"
        if path is None:
            with show_progress(dataset.name) as progress:
                path = fetch(dataset, data_folders()[0], unverified=unverified, progress=progress)
            where = "written to"
        facts.append(_facts(dataset))
        sentences.append(f"{dataset.name}: {where} {path.parent}")
    return Facts(facts, sentences)


def _table(results: Path) -> Facts:
    """Return the paper's table of data sets: published numbers, ours, and the reasons for differences."""
    published = [dataset for dataset in _sorted() if dataset.published is not None]
    measured = {dataset.name: _measured(dataset) for dataset in published}
    accuracies = {dataset.name: _accuracy(dataset.name, results) for dataset in published}
    document = [_comparison(d, measured[d.name], accuracies[d.name]) for d in published]
    return Facts(document, _compared(published, measured, accuracies))


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
            yield f"{dataset.name}: not fetched; run 'veilgraph lab data {dataset.name} --fetch'"
            continue
        for number in differing(ours, dataset.published) if dataset.published else ():
            yield f"{dataset.name}, {number}: {dataset.differences[number]}."
    yield "Accuracy is without privacy, on the columns before merging."
    if None in accuracies.values():
        yield "Our accuracy is empty where it is not computed yet: run 'veilgraph lab paper table1'."


def _sorted() -> list[Dataset]:
    return [dataset for _, dataset in sorted(catalogue.known_datasets().items())]


def _known() -> list[str]:
    return sorted(catalogue.known_datasets())


def _facts(dataset: Dataset) -> dict[str, Any]:
    facts = {key: getattr(dataset, key) for key in ("name", "nodes", "edges", "columns", "features", "classes")}
    try:
        return facts | {"path": str(find_archive(dataset.name))}
    except RunError:
        return facts | {"path": None}


def _intact(dataset: Dataset) -> Path | None:
    """Return the file of a data set if it exists and has the right checksum."""
    try:
        open_archive(dataset)
    except (GraphError, RunError):
        return None
    return find_archive(dataset.name)


def _measured(dataset: Dataset) -> Statistics | None:
    """Compute the statistics of a data set; None if its file is missing. A damaged file is an error."""
    try:
        return measure(open_archive(dataset), group=dataset.group)
    except RunError:
        return None


def _accuracy(name: str, results: Path) -> Accuracy | None:
    """Return the accuracy of the non-private GNN if `lab paper table1` has finished it for this data set."""
    if not results.exists():
        return None
    with needs_extra("lab"):
        from veilgraph.experiments.cells import DatasetLoader
        from veilgraph.experiments.grid import load_experiment
        from veilgraph.experiments.results import ResultStore, read_rows
    try:
        table1 = load_experiment("table1").only(datasets=[name])
        row = read_rows(table1, ResultStore(results), data=DatasetLoader())[0]
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
