"""Rivals: methods of other groups, written from their papers, for tables side by side."""

from veilgraph.models.rivals.featfree import FeatFree
from veilgraph.models.rivals.forward_gnn import ForwardGNN
from veilgraph.models.rivals.privge import PrivGE
from veilgraph.models.rivals.rtgnn import RTGNN
from veilgraph.models.rivals.spectral_regression import SpectralRegression
from veilgraph.models.rivals.upgnet import UPGNet

__all__ = ["RTGNN", "FeatFree", "ForwardGNN", "PrivGE", "SpectralRegression", "UPGNet"]
