"""GNNs that map node inputs and a graph to class scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from veilgraph.errors import FitError, MissingExtraError

with warnings.catch_warnings():
    # torch_geometric still compiles parts of itself with torch.jit, which torch calls deprecated.
    warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
    try:
        from torch_geometric import nn as graph_nn
    except ImportError:
        raise MissingExtraError("torch_geometric", "server") from None

# torch_geometric's annotations call its own layers abstract.
_layers: Any = graph_nn

HIDDEN = 16
ATTENTION_HEADS = 4

BackboneFactory = Callable[[int, int], nn.Module]
"""From the number of inputs and of classes to a module with ``forward(x, edge_index) -> logits``."""


class TwoLayers(nn.Module):
    """Two graph convolutions with ReLU and dropout between them, as in the paper's experiments."""

    def __init__(self, first: nn.Module, second: nn.Module, dropout: float) -> None:
        super().__init__()
        self.first, self.second, self.dropout = first, second, nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Class scores (logits) of every node."""
        hidden = self.dropout(torch.relu(self.first(x, edge_index)))
        scores: Tensor = self.second(hidden, edge_index)
        return scores


def sage(num_inputs: int, num_classes: int, dropout: float) -> nn.Module:
    """GraphSAGE with mean aggregation (Hamilton et al. 2017)."""
    return TwoLayers(_layers.SAGEConv(num_inputs, HIDDEN), _layers.SAGEConv(HIDDEN, num_classes), dropout)


def gcn(num_inputs: int, num_classes: int, dropout: float) -> nn.Module:
    """GCN (Kipf and Welling 2017)."""
    return TwoLayers(_layers.GCNConv(num_inputs, HIDDEN), _layers.GCNConv(HIDDEN, num_classes), dropout)


def gat(num_inputs: int, num_classes: int, dropout: float) -> nn.Module:
    """GAT with four attention heads (Velickovic et al. 2018)."""
    first = _layers.GATConv(num_inputs, HIDDEN, heads=ATTENTION_HEADS)
    return TwoLayers(first, _layers.GATConv(HIDDEN * ATTENTION_HEADS, num_classes), dropout)


BACKBONES = {"gat": gat, "gcn": gcn, "sage": sage}


def make_backbone(backbone: str | BackboneFactory, *, num_inputs: int, num_classes: int, dropout: float) -> nn.Module:
    """The named backbone, or whatever a factory makes.

    >>> module = make_backbone("sage", num_inputs=3, num_classes=2, dropout=0.5)
    >>> module(torch.ones(2, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 2])
    """
    if callable(backbone):
        return backbone(num_inputs, num_classes)
    if backbone not in BACKBONES:
        raise FitError(
            f"backbone is '{backbone}': choose {', '.join(BACKBONES)}, "
            "or give a function (num_inputs, num_classes) -> torch.nn.Module"
        )
    return BACKBONES[backbone](num_inputs, num_classes, dropout)
