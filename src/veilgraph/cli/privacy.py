"""A mechanism from what a command line says of it."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from veilgraph.cli._common import show_progress
from veilgraph.errors import BudgetError
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.audit import statistical_audit
from veilgraph.privacy.epsilon import show_epsilon
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR, Mechanism, MultiBit
from veilgraph.privacy.schema import FeatureSchema


class MechanismName(StrEnum):
    """The mechanisms by their names on the command line."""

    GRR_FS = "grr-fs"
    JOINT_GRR = "joint-grr"
    MULTI_BIT = "multi-bit"
    GRR = "grr"


def make_mechanism(name: MechanismName, domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> Mechanism:
    """The named mechanism for features of these domain sizes."""
    if name is MechanismName.GRR_FS:
        return GRRFS(domain_sizes, sampled=sampled, epsilon=epsilon)
    if name is MechanismName.JOINT_GRR:
        return JointGRR(domain_sizes, sampled=sampled, epsilon=epsilon)
    if name is MechanismName.MULTI_BIT:
        lower, upper = (0.0,) * len(domain_sizes), tuple(size - 1.0 for size in domain_sizes)
        return MultiBit(lower, upper, sampled=sampled, epsilon=epsilon)
    if len(domain_sizes) != 1:
        raise BudgetError(f"grr randomizes one value, not {len(domain_sizes)}: use --features 1, or joint-grr")
    return GRR(domain_sizes[0], epsilon=epsilon)


def parse_domain_sizes(text: str | None, *, features: int, domain_size: int) -> tuple[int, ...]:
    """The sizes in "2,3,4", or `features` times `domain_size`.

    >>> parse_domain_sizes("2,3,4", features=53, domain_size=2)
    (2, 3, 4)
    """
    if text is None:
        if features < 1:
            raise BudgetError(f"features is {features}: there must be at least 1")
        return (domain_size,) * features
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise BudgetError(f"domain sizes are '{text}': give whole numbers with commas, such as 2,3,4") from None


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


def audit(
    epsilon_x: Annotated[float, typer.Option(help="Budget of each sampled feature.")],
    mechanism: Annotated[MechanismName, typer.Option(help="What to audit.")] = MechanismName.GRR_FS,
    features: Annotated[int, typer.Option(help="Number of features.")] = 1,
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 1,
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2,
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None,
    trials: Annotated[int, typer.Option(help="Reports to draw in all.")] = 1_000_000,
    claim: Annotated[float | None, typer.Option(help="Epsilon to put to the test; default: the exact one.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the reports; default: a fresh one, which is printed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Draw reports of two worst-case records and bound the user-level epsilon from below, at 99% confidence."""
    sizes = parse_domain_sizes(domain_sizes, features=features, domain_size=domain_size)
    audited = make_mechanism(mechanism, sizes, sampled, epsilon_x)
    seed = secrets.randbits(32) if seed is None else seed
    with show_progress("audit") as update:
        drawn = 0

        def progress(count: int) -> None:
            nonlocal drawn
            drawn += count
            update("reports drawn", drawn, trials)

        rng = np.random.default_rng(seed)
        result = statistical_audit(audited, trials=trials, rng=rng, claim=claim, progress=progress)
    if as_json:
        relation = f"{result.relation.title}: {result.relation.value}"
        facts = {"mechanism": mechanism.value, "relation": relation, "seed": seed}
        typer.echo(json.dumps({**asdict(result), **facts}, indent=2))
        return
    verdict = "REFUTED: the claim is too low." if result.refuted else "Not refuted."
    typer.echo(
        f"{mechanism.value}, {result.relation}, {result.trials:,} reports, seed {seed}\n"
        f"claimed epsilon      {show_epsilon(result.claim)}\n"
        f"measured at least    {result.lower_bound:.4f} at {result.confidence:.0%} confidence\n"
        f"{verdict}"
    )
