"""GNNs that map node inputs and a graph to class scores, by name."""

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
from veilgraph.reconstruct.propagation import SparseProduct

HIDDEN = 16
ATTENTION_HEADS = 4

BackboneFactory = Callable[[int, int], nn.Module]
"""From the number of inputs and of classes to a module with ``forward(x, edge_index) -> logits``."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    r"""A graph convolution that is linear before its activation, so that many can be trained side by side.

    .. math:: H \mapsto P H W_1 + H W_2 + b

    P is one of the graph's matrices; without `own` there is no W_2. Being linear, it may propagate before it
    multiplies (once for all epochs, where H are the inputs) or after (where W_1 narrows).

    Attributes:
        operator: P.
        own: whether a node's own row enters apart from its neighbourhood's.
        bound: of the uniform initial weights, from the number of inputs and of outputs.
        bias_bound: of the initial biases, from the number of inputs.
    """

    operator: Callable[[GraphOperators], SparseProduct]
    own: bool
    bound: Callable[[int, int], float]
    bias_bound: Callable[[int], float]


SAGE = Convolution(
    operator=lambda operators: operators.neighbours,
    own=True,
    bound=lambda inputs, outputs: 1 / math.sqrt(inputs),
    bias_bound=lambda inputs: 1 / math.sqrt(inputs),
)
"""GraphSAGE with mean aggregation (Hamilton et al. 2017), initialised as linear layers usually are."""

GCN = Convolution(
    operator=lambda operators: operators.closed_symmetric,
    own=False,
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
        """Class scores (logits) of every node."""
        scores: Tensor = self.second(self.dropout(torch.relu(self.first(x, edge_index))), edge_index)
        return scores


def module_factory(backbone: str | BackboneFactory, dropout: float) -> BackboneFactory:
    """The factory of a backbone that is a torch module: GAT, or one of the user's own.

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
    """torch_geometric's layers, imported when a model first needs them: it takes longer than most fits."""
    with warnings.catch_warnings():
        # torch_geometric still compiles parts of itself with torch.jit, which torch calls deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        try:
            return importlib.import_module("torch_geometric.nn")
        except ImportError:
            raise MissingExtraError("torch_geometric", "server") from None
