"""`veilgraph account`: what exactly is guaranteed?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.cli.mechanism_choice import MechanismName, make_mechanism, parse_domain_sizes
from veilgraph.errors import BudgetError
from veilgraph.mechanisms import GRR, guarantee_of
from veilgraph.schema import FeatureSchema


def account(
    epsilon_x: Annotated[float, typer.Option(help="Budget of each sampled feature.")],
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")],
    epsilon_y: Annotated[
        float | None, typer.Option(help="Budget of the label; leave out if none is collected.")
    ] = None,
    features: Annotated[int | None, typer.Option(help="Number of features.")] = None,
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2,
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None,
    classes: Annotated[int, typer.Option(help="Number of classes of the label.")] = 2,
    schema: Annotated[Path | None, typer.Option(help="Take features and classes from a schema file.")] = None,
    mechanism: Annotated[MechanismName, typer.Option(help="How features are randomized.")] = MechanismName.GRR_FS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a report reveals at most: user level, attribute level, and why Theorem 1 is not used."""
    if schema is not None:
        declared = FeatureSchema.load(schema)
        sizes, classes = declared.domain_sizes, declared.num_classes
    elif features is None and domain_sizes is None:
        raise BudgetError("how many features? give --features, --domain-sizes or --schema")
    else:
        sizes = parse_domain_sizes(domain_sizes, features=features or 0, domain_size=domain_size)
    if features is not None and features != len(sizes):
        raise BudgetError(f"features is {features}, but {len(sizes)} domain sizes are given")
    label = None if epsilon_y is None else GRR(classes, epsilon_y)
    guarantee = guarantee_of(make_mechanism(mechanism, sizes, sampled, epsilon_x), label)
    if as_json:
        typer.echo(json.dumps(guarantee.as_dict(), indent=2))
    else:
        typer.echo("\n".join(guarantee.in_words()))
