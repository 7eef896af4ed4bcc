"""Graph neural networks on data that people randomized themselves before anyone collected it.

Names are imported when they are first used, so that a device which only randomizes never loads the server's
libraries, and a missing extra is reported by the name that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilgraph.audit import AuditResult, statistical_audit, worst_case_epsilon
    from veilgraph.budget import Guarantee, PrivacyBudget
    from veilgraph.campaign import Campaign
    from veilgraph.datasets import PrivateGraph
    from veilgraph.experiments import simulate
    from veilgraph.graph import Graph, PerturbedGraph, Split
    from veilgraph.learn import RGNN, Method, PlainGNN, StructureOnly, Veil
    from veilgraph.mechanisms import GRR, GRRFS, JointGRR, Mechanism, MultiBit, OSRandom
    from veilgraph.report import Report
    from veilgraph.schema import Column, FeatureSchema, propose_schema

    __version__: str

_HOME = {
    "AuditResult": "audit",
    "Campaign": "campaign",
    "Column": "schema",
    "FeatureSchema": "schema",
    "GRR": "mechanisms",
    "GRRFS": "mechanisms",
    "Graph": "graph",
    "Guarantee": "budget",
    "JointGRR": "mechanisms",
    "Mechanism": "mechanisms",
    "Method": "learn",
    "MultiBit": "mechanisms",
    "OSRandom": "mechanisms",
    "PerturbedGraph": "graph",
    "PlainGNN": "learn",
    "PrivacyBudget": "budget",
    "PrivateGraph": "datasets",
    "RGNN": "learn",
    "Report": "report",
    "Split": "graph",
    "StructureOnly": "learn",
    "Veil": "learn",
    "statistical_audit": "audit",
    "propose_schema": "schema",
    "simulate": "experiments",
    "worst_case_epsilon": "audit",
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
    "Mechanism",
    "Method",
    "MultiBit",
    "OSRandom",
    "PerturbedGraph",
    "PlainGNN",
    "PrivacyBudget",
    "PrivateGraph",
    "Report",
    "Split",
    "StructureOnly",
    "Veil",
    "propose_schema",
    "simulate",
    "statistical_audit",
    "worst_case_epsilon",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("veilgraph")  # read once
        return globals()[name]
    if name not in _HOME:
        raise AttributeError(f"module 'veilgraph' has no attribute '{name}'")
    return getattr(import_module(f"veilgraph.{_HOME[name]}"), name)
