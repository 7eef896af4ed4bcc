"""Graph neural networks on data that people randomized themselves before anyone collected it.

Public names are imported on first use. A device that only randomizes never loads the server's libraries, and a missing
extra is an error only for the names that need it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.report import Report
    from veilgraph.datasets import PrivateGraph
    from veilgraph.experiments import simulate
    from veilgraph.graph import Graph, PerturbedGraph, PublicAttributes, Split
    from veilgraph.models import RGNN, Method, PlainGNN, StructureOnly, Veil
    from veilgraph.models.node_classifier import NodeClassifier
    from veilgraph.privacy.accounting import Guarantee
    from veilgraph.privacy.audit import AuditResult, statistical_audit, worst_case_epsilon
    from veilgraph.privacy.budget import PrivacyBudget
    from veilgraph.privacy.mechanisms import (
        GRR,
        GRRFS,
        JointGRR,
        LongitudinalFeatures,
        LongitudinalGRR,
        Mechanism,
        MultiBit,
        OSRandom,
        SubsetSelection,
    )
    from veilgraph.privacy.public_columns import PublicColumn
    from veilgraph.privacy.schema import Column, FeatureSchema, propose_schema

    __version__: str

# OpenMP reads this when torch is imported. By default a thread that waits for the others keeps its core busy for some
# milliseconds. If another program needs that core, the thread it waits for does not run: epochs take ten times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOME = {
    "AuditResult": "privacy.audit",
    "Campaign": "campaign",
    "Column": "privacy.schema",
    "FeatureSchema": "privacy.schema",
    "GRR": "privacy.mechanisms",
    "GRRFS": "privacy.mechanisms",
    "Graph": "graph",
    "Guarantee": "privacy.accounting",
    "JointGRR": "privacy.mechanisms",
    "LongitudinalFeatures": "privacy.mechanisms",
    "LongitudinalGRR": "privacy.mechanisms",
    "Mechanism": "privacy.mechanisms",
    "Method": "models",
    "MultiBit": "privacy.mechanisms",
    "NodeClassifier": "models.node_classifier",
    "OSRandom": "privacy.mechanisms",
    "PerturbedGraph": "graph",
    "PlainGNN": "models",
    "PrivacyBudget": "privacy.budget",
    "PrivateGraph": "datasets",
    "PublicAttributes": "graph",
    "PublicColumn": "privacy.public_columns",
    "RGNN": "models",
    "Report": "campaign.report",
    "Split": "graph",
    "StructureOnly": "models",
    "SubsetSelection": "privacy.mechanisms",
    "Veil": "models",
    "statistical_audit": "privacy.audit",
    "propose_schema": "privacy.schema",
    "simulate": "experiments",
    "worst_case_epsilon": "privacy.audit",
}

__all__ = [
    "GRR",
    "GRRFS",
    "RGNN",
    "AuditResult",
    "Campaign",
    "Column",
    "FeatureSchema",
    "Graph",
    "Guarantee",
    "JointGRR",
    "LongitudinalFeatures",
    "LongitudinalGRR",
    "Mechanism",
    "Method",
    "MultiBit",
    "NodeClassifier",
    "OSRandom",
    "PerturbedGraph",
    "PlainGNN",
    "PrivacyBudget",
    "PrivateGraph",
    "PublicAttributes",
    "PublicColumn",
    "Report",
    "Split",
    "StructureOnly",
    "SubsetSelection",
    "Veil",
    "propose_schema",
    "simulate",
    "statistical_audit",
    "worst_case_epsilon",
]


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("veilgraph")  # read once
        return globals()[name]
    if name not in _HOME:
        raise AttributeError(f"module 'veilgraph' has no attribute '{name}'")
    return getattr(import_module(f"veilgraph.{_HOME[name]}"), name)
