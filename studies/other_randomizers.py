"""Randomizers of other libraries as a command that reads records and writes reports, for `studies/audits.py`.

It needs one of these libraries and nothing of veilgraph, so it runs in an environment of its own:

    python studies/other_randomizers.py NAME < records > reports

A record is the number of a value. A report that holds the seed of a hash is written decoded: which values it supports.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

Randomizer = Callable[[int], Any]

EPSILON = 1.0
VALUES = 4
ATTRIBUTES = 3


def _from(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _pure_ldp(folder: str, name: str, *arguments: Any, **options: Any) -> Randomizer:
    made = _from(f"pure_ldp.frequency_oracles.{folder}", name)(EPSILON, VALUES, *arguments, **options)
    made.index_mapper = int
    return lambda value: made.privatise(value)


def _pure_ldp_hashing() -> Randomizer:
    xxhash, client = importlib.import_module("xxhash"), _pure_ldp("local_hashing", "LHClient", use_olh=True)
    size = _from("pure_ldp.frequency_oracles.local_hashing", "LHClient")(EPSILON, VALUES, use_olh=True).g

    def decoded(value: int) -> list[bool]:
        said, seed = client(value)
        return [xxhash.xxh32(str(each), seed=seed).intdigest() % size == said for each in range(VALUES)]

    return decoded


def _rappor() -> Randomizer:
    # f = 0.5 and one hash function: epsilon is 2 ln((1 - f / 2) / (f / 2)) = 2 ln 3.
    made = _from("pure_ldp.frequency_oracles.rappor.rappor_client", "RAPPORClient")(
        0.5, VALUES, [[int]], 1, index_mapper=int
    )
    return lambda value: made.privatise(value)[0]


def _cms() -> Randomizer:
    client = _from("pure_ldp.frequency_oracles.apple_cms", "CMSClient")
    made = client(EPSILON, [int], VALUES)
    return lambda value: made.privatise(value)[0]


def _multi_freq(file: str, name: str, *arguments: Any) -> Randomizer:
    client = _from(f"multi_freq_ldpy.{file}", name)
    return lambda value: client(value, VALUES, EPSILON, *arguments)


def _multi_freq_hashing() -> Randomizer:
    xxhash, client = importlib.import_module("xxhash"), _multi_freq("pure_frequency_oracles.LH", "LH_Client")

    def decoded(value: int) -> list[bool]:
        said, seed = client(value)
        return [xxhash.xxh32(str(each), seed=seed).intdigest() % 4 == said for each in range(VALUES)]

    return decoded


def _subsets(*, order: bool) -> Randomizer:
    # Of eight values a report names two; of four it would name one.
    client = _from("multi_freq_ldpy.pure_frequency_oracles.SS", "SS_Client")
    return lambda value: sorted(client(value, 8, EPSILON).tolist()) if order else client(value, 8, EPSILON)


def _sampling(name: str, *arguments: Any) -> Randomizer:
    client = _from("multi_freq_ldpy.mdim_freq_est.RSpFD_solution", name)
    return lambda value: client([value] * ATTRIBUTES, [VALUES] * ATTRIBUTES, ATTRIBUTES, EPSILON, *arguments)


def _diffprivlib(name: str, prepare: Callable[[int], Any], **options: Any) -> Randomizer:
    made = _from("diffprivlib.mechanisms", name)(epsilon=EPSILON, **options)
    return lambda value: made.randomise(prepare(value))


def _opendp(name: str, *arguments: Any) -> Randomizer:
    opendp: Any = importlib.import_module("opendp.prelude")
    opendp.enable_features("contrib")
    made = getattr(opendp.m, name)(*arguments)
    return lambda value: made(value)


def _opendp_laplace() -> Randomizer:
    opendp: Any = importlib.import_module("opendp.prelude")
    opendp.enable_features("contrib")
    made = opendp.m.make_laplace(opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float), scale=1.0)
    return lambda value: made(float(value))


_LETTERS = "abcd"
_PAIRS = [(one, other, 1.0) for one, other in itertools.combinations(_LETTERS, 2)]
_ORACLES = "pure_frequency_oracles"

RANDOMIZERS: dict[str, Callable[[], Randomizer]] = {
    "pure-ldp direct encoding": lambda: _pure_ldp("direct_encoding", "DEClient"),
    "pure-ldp unary encoding": lambda: _pure_ldp("unary_encoding", "UEClient"),
    "pure-ldp optimised unary encoding": lambda: _pure_ldp("unary_encoding", "UEClient", use_oue=True),
    "pure-ldp local hashing": _pure_ldp_hashing,
    "pure-ldp Hadamard mechanism": lambda: _pure_ldp("hadamard_mechanism", "HadamardMechClient", 1),
    "pure-ldp count-mean sketch": _cms,
    "pure-ldp RAPPOR": _rappor,
    "pure-ldp histogram encoding": lambda: _pure_ldp("histogram_encoding", "HEClient"),
    "multi-freq-ldpy GRR": lambda: _multi_freq(f"{_ORACLES}.GRR", "GRR_Client"),
    "multi-freq-ldpy unary encoding": lambda: _multi_freq(f"{_ORACLES}.UE", "UE_Client", False),
    "multi-freq-ldpy optimised unary encoding": lambda: _multi_freq(f"{_ORACLES}.UE", "UE_Client", True),
    "multi-freq-ldpy subset selection, sorted": lambda: _subsets(order=True),
    "multi-freq-ldpy subset selection": lambda: _subsets(order=False),
    "multi-freq-ldpy local hashing": _multi_freq_hashing,
    "multi-freq-ldpy RS+FD with GRR": lambda: _sampling("RSpFD_GRR_Client"),
    "multi-freq-ldpy RS+FD with unary encoding": lambda: _sampling("RSpFD_UE_zero_Client", True),
    "multi-freq-ldpy histogram encoding": lambda: _multi_freq(f"{_ORACLES}.HE", "HE_Client"),
    "diffprivlib binary": lambda: _diffprivlib("Binary", str, value0="0", value1="1"),
    "diffprivlib exponential categorical": lambda: _diffprivlib(
        "ExponentialCategorical", _LETTERS.__getitem__, utility_list=_PAIRS
    ),
    "diffprivlib geometric": lambda: _diffprivlib("Geometric", int, sensitivity=1),
    "diffprivlib truncated geometric": lambda: _diffprivlib("GeometricTruncated", int, sensitivity=1, lower=0, upper=1),
    "diffprivlib snapping": lambda: _diffprivlib("Snapping", float, sensitivity=1.0, lower=0.0, upper=1.0),
    "diffprivlib Laplace": lambda: _diffprivlib("Laplace", float, sensitivity=1.0),
    "diffprivlib staircase": lambda: _diffprivlib("Staircase", float, sensitivity=1.0),
    "opendp randomized response": lambda: _opendp(
        "make_randomized_response_bool", 2.718281828459045 / 3.718281828459045
    ),
    "opendp Laplace": _opendp_laplace,
}


def _plain(value: object) -> object:
    """Return arrays and their numbers as JSON values."""
    return (
        value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, (tuple, zip)) else str(value)
    )


def main() -> None:
    """Write a report of each record."""
    randomize = RANDOMIZERS[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(randomize(json.loads(line)), default=_plain))


if __name__ == "__main__":
    main()
