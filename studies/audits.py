"""Audits of randomizers: how often true claims are refuted, what is found with how many draws, and other libraries.

    python -m studies.audits rates            2,000 audits of four mechanisms and a function at their exact claim
    python -m studies.audits power            leaks of one class, by their size and the number of draws
    python -m studies.audits libraries --python ENVIRONMENT/bin/python --only pure-ldp

The libraries are installed in an environment of their own; nothing of veilgraph has to be there.
"""

from __future__ import annotations

import argparse
import math
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.other_randomizers import EPSILON, RANDOMIZERS, VALUES
from veilgraph.privacy.audit import audit_command, audit_randomizer, statistical_audit
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR, Mechanism, RandomIntegers

SOUND: list[Mechanism] = [
    GRR(2, 1.0),
    GRR(7, 1.0),
    GRRFS((2, 2, 2), sampled=2, epsilon=1.0),
    JointGRR((2,) * 20, sampled=3, epsilon=0.5),
]
FUNCTION = "a function, as `GRR(4, 1.0)`"
CLAIMS = {"pure-ldp RAPPOR": 2 * math.log(3)}
"""Claims that are not `EPSILON`."""
BITS = ("diffprivlib binary", "diffprivlib truncated geometric", "diffprivlib geometric", "opendp randomized response")
NUMBERS = ("diffprivlib Laplace", "diffprivlib staircase", "diffprivlib snapping", "opendp Laplace")
BOOLEANS = ("opendp randomized response",)


@dataclass(frozen=True)
class LeakingGRR(GRR):
    """A GRR that reports its last class unrandomized in a share of the draws."""

    share: float = 0.0

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize, and put the truth back where chance says so."""
        reports = super().randomize(values, rng=rng)
        leaks = rng.integers(0, 2**20, size=values.size).reshape(values.shape) < self.share * 2**20
        return np.where((values == self.domain_size - 1) & leaks, values, reports)

    @property
    def true_epsilon(self) -> float:
        """Epsilon of the leaking class against any other one."""
        keep, other = float(self.channel.keep), float(self.channel.other)
        return math.log((keep + self.share * (1 - keep)) / other)


def rates(options: argparse.Namespace) -> Iterator[str]:
    """Yield how often true claims are refuted, with the upper end of Clopper and Pearson at 99.9 %."""
    from scipy.stats import beta

    yield f"| mechanism | audits | draws | refuted | at most, 99.9 % | by the bound | seconds |\n{'|---' * 7}|"
    audits = {f"`{mechanism}`": partial(_audit, mechanism) for mechanism in SOUND} | {FUNCTION: _audit_function}
    for name, audit in audits.items():
        if not name.startswith(options.only):
            continue
        start = time.perf_counter()
        found = [audit(options.trials, seed) for seed in range(100, 100 + options.repetitions)]
        refuted = sum(each.refuted for each in found)
        above = sum(each.lower_bound > each.claim for each in found)
        most = float(beta.ppf(0.999, refuted + 1, options.repetitions - refuted))
        spent = time.perf_counter() - start
        counts = f"{options.repetitions} | {options.trials} | {refuted} | {most:.2%} | {above} | {spent:.0f}"
        yield f"| {name} | {counts} |"


def power(options: argparse.Namespace) -> Iterator[str]:
    """Yield how many audits find leaks of one class of `GRR(7, 1.0)`."""
    yield f"| share of truths in one class | its epsilon | draws | found | mean bound | seconds each |\n{'|---' * 6}|"
    for share in (1.0, 0.3, 0.1, 0.03, 0.01):
        for trials in (4_000, 20_000, 100_000, 500_000, 2_000_000):
            mechanism = LeakingGRR(7, 1.0, share)
            start = time.perf_counter()
            found = [_audit(mechanism, trials, seed) for seed in range(100, 100 + options.repetitions)]
            spent = (time.perf_counter() - start) / len(found)
            hits, mean = sum(each.refuted for each in found), np.mean([each.lower_bound for each in found])
            true = "infinite" if share == 1 else f"{mechanism.true_epsilon:.3f}"
            yield f"| {share:.0%} | {true} | {trials:,} | {hits} of {len(found)} | {mean:.3f} | {spent:.1f} |"
            if hits == len(found):
                break


def _audit(mechanism: Mechanism, trials: int, seed: int) -> Any:
    return statistical_audit(mechanism, trials=trials, rng=np.random.default_rng(seed), fresh_processes=False)


def _audit_function(trials: int, seed: int) -> Any:
    """Audit a function that draws as `GRR(4, 1.0)` does, of which nothing is known but its reports."""
    rng, keep = random.Random(seed), math.e / (math.e + 3)

    def report(value: int) -> int:
        return value if rng.random() < keep else (value + rng.randrange(1, 4)) % 4

    order = np.random.default_rng(seed)
    return audit_randomizer(report, range(4), claim=1.0, trials=trials, rng=order, fresh_processes=False)


def records_of(name: str) -> list[str]:
    """Return the records of a randomizer of another library, as lines."""
    if name in BOOLEANS:
        return ["false", "true"]
    return [str(value) for value in range(2 if name in BITS + NUMBERS else VALUES)]


def libraries(options: argparse.Namespace) -> Iterator[str]:
    """Yield audits of the randomizers of other libraries."""
    program = Path(__file__).with_name("other_randomizers.py")
    yield f"| randomizer | claim | measured at least | refuted | draws | seconds |\n{'|---' * 6}|"
    for name in RANDOMIZERS:
        if not name.startswith(options.only):
            continue
        command = shlex.join([options.python, str(program), name])
        claim, start = CLAIMS.get(name, EPSILON), time.perf_counter()
        rng = np.random.default_rng(options.seed)
        found = audit_command(command, records_of(name), claim=claim, trials=options.trials, rng=rng)
        spent = time.perf_counter() - start
        verdict = "; ".join(found.reasons) if found.refuted else "no"
        yield f"| {name} | {claim:.3f} | {found.lower_bound:.3f} | {verdict} | {options.trials} | {spent:.0f} |"


STUDIES: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "rates": rates,
    "power": power,
    "libraries": libraries,
}


def main() -> None:
    """Print the rows of a table as they are found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--trials", type=int, default=None, help="draws of an audit; default: 4000, libraries 40000")
    parser.add_argument("--repetitions", type=int, default=None, help="default: 2000, power 5")
    parser.add_argument("--seed", type=int, default=100, help="libraries: seed of the order of records")
    parser.add_argument("--python", default=sys.executable, help="Python that has the libraries")
    parser.add_argument("--only", default="", help="rates, libraries: first letters of what is audited")
    options = parser.parse_args()
    options.trials = options.trials or (40_000 if options.study == "libraries" else 4_000)
    options.repetitions = options.repetitions or (5 if options.study == "power" else 2_000)
    for row in STUDIES[options.study](options):
        print(row, flush=True)


if __name__ == "__main__":
    main()
