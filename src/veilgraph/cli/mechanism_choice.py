"""A mechanism from what a command line says of it."""

from __future__ import annotations

from enum import StrEnum

from veilgraph.errors import BudgetError
from veilgraph.mechanisms import GRR, GRRFS, JointGRR, Mechanism, MultiBit


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
