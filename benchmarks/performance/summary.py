"""Results of `python -m benchmarks` as tables, and its files bench.json, bench.md and bench.svg."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.performance.figure import draw
from veilgraph.atomic_files import write_atomically

CEILINGS = {"memory": "× memory floor", "cache": "× cache floor", "peak": "× arithmetic floor"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of strings. The first column is left-aligned, the others are right-aligned."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table as Markdown, without its title."""
        rule = ["---", *["---:"] * (len(self.headings) - 1)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rule, *self.rows))


def tables(results: Mapping[str, Any]) -> Iterator[Table]:
    """Yield all tables of the results."""
    yield _stage_table(results)
    if "rgnn_column" in results.get("table2", {}):
        yield _table2_table(results["table2"])
    if "rows" in results.get("growth", {}):
        yield _growth_table(results["growth"])
    yield _hot_path_table(results["hot_path"])


def sentences(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences that a reader of the tables must know."""
    yield f"Measured on {results['date']} with veilgraph {results['veilgraph']} on {results['machine']['in_words']}."
    machine = results["machine"]
    if machine["busy"]:
        yield (
            f"Other work was running (a load of {machine['load']:.1f} on {machine['cores']} cores), so no time or "
            "ratio here is worth much: measure again when the machine is quiet."
        )
    yield f"Stages: {results['workload']}."
    table2 = results.get("table2", {})
    if "left_out" in table2:
        yield f"Left out, Table 2: {table2['left_out']}."
    elif table2:
        yield (
            f"Table 2 ran in {table2['jobs']} process{'es' if table2['jobs'] > 1 else ''}, their start included. The "
            "literal time of its RGNN column is an estimate: one literal run for each data set was timed and "
            "multiplied by the number of runs."
        )


def write(results: Mapping[str, Any], folder: Path) -> None:
    """Write bench.json, bench.md and bench.svg."""
    write_atomically(folder / "bench.json", json.dumps(results, indent=2) + "\n")
    write_atomically(folder / "bench.md", markdown(results))
    write_atomically(folder / "bench.svg", draw(results))


def markdown(results: Mapping[str, Any], *, figure: str = "bench.svg") -> str:
    """Return the results as Markdown, with a link to the figure."""
    parts = ["\n".join(sentences(results))]
    for number, table in enumerate(tables(results)):
        parts.append(f"**{table.title}**")
        parts.append(table.markdown())
        if number == 0:
            parts.append(f"![Seconds of each stage: the floor, veilgraph and the paper's loops]({figure})")
    return "\n\n".join(parts) + "\n"


def duration(seconds: float | None) -> str:
    """Format a time with three digits and a unit.

    >>> duration(0.01234), duration(0.0000042), duration(75.3), duration(None)
    ('12.3 ms', '4.20 µs', '75.3 s', '')
    """
    if seconds is None:
        return ""
    unit, size = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if seconds >= s), ("ns", 1e-9))
    return f"{_three_digits(seconds / size)} {unit}"


def times(ratio: float | None) -> str:
    """Format a ratio with two digits, or as an integer from 10 on.

    >>> times(123.4), times(1.25), times(None)
    ('123×', '1.2×', '')
    """
    return "" if ratio is None else f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def _three_digits(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"


def _stage_table(results: Mapping[str, Any]) -> Table:
    return Table(
        title="Stages",
        headings=("stage", "literal", "veilgraph", "literal / veilgraph", *CEILINGS.values()),
        rows=[
            (
                row["stage"],
                duration(row["literal_s"]),
                duration(row["veilgraph_s"]),
                times(row["ratio"]),
                *(times(row["distance"][ceiling]) for ceiling in CEILINGS),
            )
            for row in results["stages"]
        ],
    )


def _table2_table(table2: Mapping[str, Any]) -> Table:
    column, whole = table2["rgnn_column"], table2["whole_table"]
    return Table(
        title="Table 2 of the paper",
        headings=("work", "runs", "literal, estimated", "veilgraph", "literal / veilgraph"),
        rows=[
            (
                "RGNN column",
                str(column["runs"]),
                duration(column["literal_s_estimated"]),
                duration(column["veilgraph_s"]),
                times(column["ratio"]),
            ),
            ("whole table, baselines and control", str(whole["runs"]), "", duration(whole["veilgraph_s"]), ""),
            *(
                (f"one literal run, {row['dataset']}", "1", duration(row["literal_s"]), "", "")
                for row in table2["literal_runs"]
            ),
        ],
    )


def _growth_table(growth: Mapping[str, Any]) -> Table:
    rows = growth["rows"]
    return Table(
        title=f"Growth with size: time grows as nodes to the power {growth['exponent']:.2f}",
        headings=tuple(rows[0]),
        rows=[
            tuple(f"{value:.3g}" if isinstance(value, float) else f"{value:,}" for value in row.values())
            for row in rows
        ],
    )


def _hot_path_table(hot_path: Mapping[str, Any]) -> Table:
    return Table(
        title=f"Where the time of training goes ({hot_path['replicas']} replicas, {hot_path['epochs']} epochs)",
        headings=("operation", "share", "sum"),
        rows=[(row["operation"], f"{row['share']:.0%}", f"{row['sum']:.0%}") for row in hot_path["rows"]],
    )
