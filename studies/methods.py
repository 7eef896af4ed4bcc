"""Methods that only studies run, by name: rivals, and the methods of the package on other feature reports."""

from __future__ import annotations

from dataclasses import replace

from studies.rivals import RTGNN, FeatFree, ForwardGNN, PrivGE, SpectralRegression, UPGNet
from veilgraph.models.registry import METHODS, MethodEntry
from veilgraph.privacy.mechanisms.registry import grr_on_all, joint_grr_best, multi_bit_best

RIVALS: dict[str, MethodEntry] = {
    "spectral": MethodEntry(
        title="Spectral regression",
        abbreviation="Spectral",
        description="randomized labels and eigenvectors of the graph, by forward correction; no features",
        estimator=SpectralRegression,
        features=None,
        revision=1,
    ),
    "forward_gnn": MethodEntry(
        title="GNN with forward correction",
        abbreviation="Forward GNN",
        description="randomized features, reconstructed, and randomized labels by forward correction",
        estimator=ForwardGNN,
    ),
    "featfree": MethodEntry(
        title="FeatFree, forward correction",
        abbreviation="FeatFree",
        description="randomized labels and smoothed random inputs; no features",
        estimator=FeatFree,
        fixed={"dimensions": 1024},
        features=None,
    ),
    "featfree_p": MethodEntry(
        title="FeatFree-P, forward correction",
        abbreviation="FeatFree-P",
        description="randomized labels and positions in the graph; no features",
        estimator=FeatFree,
        fixed={"dimensions": 0},
        features=None,
    ),
    "rtgnn": MethodEntry(
        title="RTGNN, known channel",
        abbreviation="RTGNN",
        description="randomized labels and positions in the graph, with pseudo labels; no features",
        estimator=RTGNN,
        features=None,
    ),
    "upgnet": MethodEntry(
        title="UPGNet, forward correction",
        abbreviation="UPGNet",
        description="multi-bit features, shrunk and averaged over hops, and randomized labels by forward correction",
        estimator=UPGNet,
        features=multi_bit_best,
    ),
    "privge": MethodEntry(
        title="PrivGE, forward correction",
        abbreviation="PrivGE",
        description="multi-bit features by personalised PageRank, and randomized labels by forward correction",
        estimator=PrivGE,
        features=multi_bit_best,
    ),
}
"""Rivals: written from their papers, private in their labels too."""

EQUAL_EPSILON: dict[str, MethodEntry] = {
    f"{name}_{suffix}": replace(METHODS[name], title=f"{METHODS[name].title}, {features.title}", features=features)
    for name in ("rgnn", "veil")
    for suffix, features in {
        "grr_on_all": grr_on_all,
        "multi_bit": multi_bit_best,
        "joint_grr": joint_grr_best,
    }.items()
    if (name, suffix) != ("veil", "joint_grr")  # that is veil_equal
}
"""RGNN and Veil on the reports of other mechanisms, at the same user-level epsilon m * epsilon_x (any two records)."""


def register() -> None:
    """Add the methods to the registry of this process, so that a grid can name them."""
    METHODS.update(RIVALS | EQUAL_EPSILON)
