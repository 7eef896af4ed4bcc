"""Methods that turn reports on a public graph into predictions. None of them can import a true value."""

from veilgraph.learn.controls import StructureOnly
from veilgraph.learn.lpgnn import LPGNN
from veilgraph.learn.majority import MajorityClass
from veilgraph.learn.method import Method
from veilgraph.learn.plain import PlainGNN
from veilgraph.learn.rgnn import RGNN
from veilgraph.learn.veil import LabelVeil, Veil

__all__ = ["LPGNN", "RGNN", "LabelVeil", "MajorityClass", "Method", "PlainGNN", "StructureOnly", "Veil"]
