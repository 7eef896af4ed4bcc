"""Rivals: methods of other groups, written from their papers, for tables side by side."""

from studies.rivals.boosted_trees import BoostedTrees
from studies.rivals.correct_and_smooth import CorrectAndSmooth
from studies.rivals.featfree import FeatFree
from studies.rivals.forward_gnn import ForwardGNN
from studies.rivals.privge import PrivGE
from studies.rivals.public_inputs import PublicGNN, PublicRTGNN
from studies.rivals.rtgnn import RTGNN
from studies.rivals.spectral_regression import SpectralRegression
from studies.rivals.upgnet import UPGNet

__all__ = [
    "RTGNN",
    "BoostedTrees",
    "CorrectAndSmooth",
    "FeatFree",
    "ForwardGNN",
    "PrivGE",
    "PublicGNN",
    "PublicRTGNN",
    "SpectralRegression",
    "UPGNet",
]
