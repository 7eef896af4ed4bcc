"""Backbones by name: GNNs that map node inputs and a graph to logits."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veilgraph.errors import FitError, MissingExtraError
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import SparseProduct

HIDDEN = 16
ATTENTION_HEADS = 4

BackboneFactory = Callable[[int, int], nn.Module]
"""A function (num_inputs, num_classes) -> module with ``forward(x, edge_index) -> logits``."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    r"""A graph convolution that is linear before its activation, so that many replicas can be trained together.

    .. math:: H \mapsto P H W_1 + H W_2 + b

    P is one of the graph's matrices. Because the convolution is linear, it can propagate before it multiplies (once for
    all epochs, if H are the inputs) or after (if W_1 has few outputs).

    Attributes:
        operator: returns P.
        has_own_term: whether there is a term H W_2 for a node's own row.
        bound: bound of the uniform initial weights, as a function of the numbers of inputs and outputs.
        bias_bound: bound of the uniform initial biases, as a function of the number of inputs.
    """

    operator: Callable[[GraphOperators], SparseProduct]
    has_own_term: bool
    bound: Callable[[int, int], float]
    bias_bound: Callable[[int], float]


SAGE = Convolution(
    operator=lambda operators: operators.neighbours,
    has_own_term=True,
    bound=lambda inputs, outputs: 1 / math.sqrt(inputs),
    bias_bound=lambda inputs: 1 / math.sqrt(inputs),
)
"""GraphSAGE with mean aggregation (Hamilton et al. 2017), with the initial weights of torch.nn.Linear."""

GCN = Convolution(
    operator=lambda operators: operators.closed_symmetric,
    has_own_term=False,
    bound=lambda inputs, outputs: math.sqrt(6 / (inputs + outputs)),
    bias_bound=lambda inputs: 0.0,
)
"""GCN (Kipf and Welling 2017), with Glorot's initial weights."""

CONVOLUTIONS = {"gcn": GCN, "sage": SAGE}


class _Attention(nn.Module):
    """Two layers of GAT (Velickovic et al. 2018), with ReLU and dropout between them."""

    def __init__(self, num_inputs: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        layers = _graph_layers()
        self.first = layers.GATConv(num_inputs, HIDDEN, heads=ATTENTION_HEADS)
        self.second = layers.GATConv(HIDDEN * ATTENTION_HEADS, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits of every node, [nodes, classes]."""
        scores: Tensor = self.second(self.dropout(torch.relu(self.first(x, edge_index))), edge_index)
        return scores


def module_factory(backbone: str | BackboneFactory, dropout: float) -> BackboneFactory:
    """Return the factory of a backbone that is a torch module: GAT, or one of the user's own.

    >>> module_factory(lambda inputs, classes: torch.nn.Linear(inputs, classes), dropout=0.5)(3, 2)
    Linear(in_features=3, out_features=2, bias=True)
    """
    if callable(backbone):
        return backbone
    if backbone != "gat":
        raise FitError(
            f"backbone is '{backbone}': choose {', '.join(sorted(['gat', *CONVOLUTIONS]))}, "
            "or give a function (num_inputs, num_classes) -> torch.nn.Module"
        )
    return lambda num_inputs, num_classes: _Attention(num_inputs, num_classes, dropout)


def _graph_layers() -> Any:
    """Import the layers of torch_geometric at their first use: the import takes longer than most fits."""
    with warnings.catch_warnings():
        # torch_geometric still uses torch.jit, which torch reports as deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        try:
            return importlib.import_module("torch_geometric.nn")
        except ImportError:
            raise MissingExtraError("torch_geometric", "server") from None
