"""Noise from a fixed seed is found by drawing in two processes, and chance agreement is not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.broken_mechanisms import PrintingGRR, SeededGRR, SeededGRRFS
from veilgraph.privacy.auditing.fresh_process import repeats_p_value
from veilgraph.privacy.auditing.sources import CommandSource, FunctionSource, MechanismSource
from veilgraph.privacy.mechanisms import GRR, GRRFS, Mechanism


@pytest.mark.parametrize("mechanism", [SeededGRR(3, 1.0), SeededGRRFS((2,) * 40, sampled=9, epsilon=1.0)], ids=repr)
def test_noise_from_a_fixed_seed_agrees_in_two_processes(mechanism: Mechanism) -> None:
    found = repeats_p_value(MechanismSource.of(mechanism, 8, np.random.default_rng(0)))
    assert found is not None
    assert found < 1e-9


@pytest.mark.parametrize("mechanism", [GRR(3, 1.0), GRR(2, 9.0), GRRFS((2,) * 40, sampled=9, epsilon=1.0)], ids=repr)
def test_noise_of_the_system_agrees_by_chance_alone(mechanism: Mechanism) -> None:
    found = repeats_p_value(MechanismSource.of(mechanism, 8, np.random.default_rng(0)))
    assert found is not None
    assert found > 1e-6


def test_a_mechanism_that_prints_is_tested_like_others() -> None:
    found = repeats_p_value(MechanismSource.of(PrintingGRR(3, 1.0), 8, np.random.default_rng(0)))
    assert found is not None
    assert found > 1e-6


def test_a_function_without_a_name_cannot_be_tested() -> None:
    assert repeats_p_value(FunctionSource((0, 1), lambda record: record)) is None


NUMBERED = """
import random, secrets, sys
{seed}
for number, line in enumerate(sys.stdin):
    print([number, secrets.randbits(50), int(line) if random.random() < 0.75 else 1 - int(line)])
"""


@pytest.mark.parametrize(("seed", "is_found"), [("random.seed(secrets.randbits(60))", False), ("random.seed(1)", True)])
def test_the_number_of_a_line_is_no_noise_and_a_seed_beside_it_and_a_nonce_is_found(
    tmp_path: Path, seed: str, is_found: bool
) -> None:
    program = tmp_path / "numbered.py"
    program.write_text(NUMBERED.replace("{seed}", seed), encoding="utf-8")
    found = repeats_p_value(CommandSource(("0", "1"), f"{sys.executable} {program}"))
    assert found is not None
    assert (found < 1e-6) is is_found
