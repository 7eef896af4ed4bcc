"""Rivals: methods of other groups, written from their papers, for tables side by side."""

from studies.rivals.featfree import FeatFree
from studies.rivals.forward_gnn import ForwardGNN
from studies.rivals.privge import PrivGE
from studies.rivals.rtgnn import RTGNN
from studies.rivals.spectral_regression import SpectralRegression
from studies.rivals.upgnet import UPGNet

__all__ = ["RTGNN", "FeatFree", "ForwardGNN", "PrivGE", "SpectralRegression", "UPGNet"]
