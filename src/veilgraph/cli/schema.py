"""`veilgraph schema`: what may be reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilgraph.cli._common import check_new, echo
from veilgraph.graph import read_table
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema, propose_schema

schema_app = typer.Typer(help="Declare what may be reported.")


@schema_app.command()
def propose(
    sample: Annotated[Path, typer.Option(help="PUBLIC sample data, .csv or .parquet. Never private records.")],
    label: Annotated[str, typer.Option(help="The column that holds the class.")],
    out: Annotated[Path, typer.Option(help="The schema file to write.")],
    bins: Annotated[int, typer.Option(help="Bins of a continuous column.")] = 4,
) -> None:
    """Draft a schema from public sample data, for a person to review."""
    check_new(out)
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
