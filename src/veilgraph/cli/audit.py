"""`veilgraph audit`: does a mechanism keep its promise?"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer

from veilgraph.audit import statistical_audit
from veilgraph.budget import show_epsilon
from veilgraph.cli.mechanism_choice import MechanismName, make_mechanism, parse_domain_sizes
from veilgraph.cli.progress import show_progress


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
        facts = {"mechanism": mechanism.value, "relation": "user level: any two records", "seed": seed}
        typer.echo(json.dumps({**asdict(result), **facts}, indent=2))
        return
    verdict = "REFUTED: the claim is too low." if result.refuted else "Not refuted."
    typer.echo(
        f"{mechanism.value}, user level (any two records), {result.trials:,} reports, seed {seed}\n"
        f"claimed epsilon      {show_epsilon(result.claim)}\n"
        f"measured at least    {result.lower_bound:.4f} at {result.confidence:.0%} confidence\n"
        f"{verdict}"
    )
