"""Mechanisms: parameters, a privacy claim, a channel and a randomizer in one value."""

from veilgraph.mechanisms.channel import SymmetricChannel
from veilgraph.mechanisms.composition import guarantee_of
from veilgraph.mechanisms.grr import GRR
from veilgraph.mechanisms.grr_fs import GRRFS
from veilgraph.mechanisms.joint_grr import NOT_ASKED, JointGRR
from veilgraph.mechanisms.mechanism import Mechanism
from veilgraph.mechanisms.multi_bit import MultiBit
from veilgraph.mechanisms.randomness import OSRandom, RandomIntegers

__all__ = [
    "GRR",
    "GRRFS",
    "NOT_ASKED",
    "JointGRR",
    "Mechanism",
    "MultiBit",
    "OSRandom",
    "RandomIntegers",
    "SymmetricChannel",
    "guarantee_of",
]
