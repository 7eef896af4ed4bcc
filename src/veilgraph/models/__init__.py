"""Methods that turn reports on a public graph into predictions. None of them can import a true value."""

from veilgraph.models.base import Method
from veilgraph.models.baselines import MajorityClass, PlainGNN
from veilgraph.models.lpgnn import LPGNN
from veilgraph.models.neighbour_waves import NeighbourWaves
from veilgraph.models.registry import register_method
from veilgraph.models.rgnn import RGNN
from veilgraph.models.structure_only import StructureOnly
from veilgraph.models.veil.model import LabelVeil, Veil

__all__ = [
    "LPGNN",
    "RGNN",
    "LabelVeil",
    "MajorityClass",
    "Method",
    "NeighbourWaves",
    "PlainGNN",
    "StructureOnly",
    "Veil",
    "register_method",
]
