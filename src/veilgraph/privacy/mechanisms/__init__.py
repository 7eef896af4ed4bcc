"""Mechanisms: parameters, privacy loss, channel and randomizer in one value."""

from veilgraph.privacy.mechanisms.base import FeatureMechanism, LabelMechanism, Mechanism
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.grr_fs import GRRFS
from veilgraph.privacy.mechanisms.joint_grr import JointGRR
from veilgraph.privacy.mechanisms.longitudinal_features import LongitudinalFeatures
from veilgraph.privacy.mechanisms.longitudinal_grr import LongitudinalGRR
from veilgraph.privacy.mechanisms.multi_bit import MultiBit
from veilgraph.privacy.mechanisms.neighbourhood import NeighbourMechanism
from veilgraph.privacy.mechanisms.neighbourhood_class import NeighbourhoodClass
from veilgraph.privacy.mechanisms.neighbourhood_histogram import NeighbourhoodHistogram
from veilgraph.privacy.mechanisms.random_source import OSRandom, RandomIntegers
from veilgraph.privacy.mechanisms.randomized_neighbour_list import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.round_evidence import RoundEvidence
from veilgraph.privacy.mechanisms.subset_selection import SubsetSelection

__all__ = [
    "GRR",
    "GRRFS",
    "NOT_ASKED",
    "FeatureMechanism",
    "JointGRR",
    "LabelMechanism",
    "LongitudinalFeatures",
    "LongitudinalGRR",
    "Mechanism",
    "MultiBit",
    "NeighbourMechanism",
    "NeighbourhoodClass",
    "NeighbourhoodHistogram",
    "OSRandom",
    "RandomIntegers",
    "RandomizedNeighbourList",
    "RoundEvidence",
    "SubsetSelection",
    "SymmetricChannel",
]
