"""GAT: two layers of graph attention, on a whole graph or on one process's part of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph.pyg import pyg_module
from veilgraph.models.engine.backbones import HIDDEN, ReplicaSettings
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset
from veilgraph.models.engine.replica_weights import ReplicaWeights
from veilgraph.reconstruct.operators import GraphOperators

HEADS = 4
_FIRST, _SECOND = "first", "second"


def attention_bytes(operators: GraphOperators, num_classes: int) -> int:
    """Estimate the memory in which `AttentionNetwork` trains, beside its inputs; that of the largest part if several.

    An edge has a row of hidden units of every head, which the first layer keeps for the backward pass. That pass makes
    three more arrays of this size, and so does that of the second layer with rows of classes. Scores of the heads are
    some more numbers. The loops that attention adds count as edges.

    Args:
        operators: matrices of the graph.
        num_classes: number of outputs.
    """
    communicator, units = operators.communicator, HEADS * HIDDEN
    loops = communicator.max_extended_rows(operators.graph.num_nodes)
    arriving = communicator.all_reduce_max(int(operators.graph.degrees.sum()))
    of_edge = units + 8 * HEADS + max(3 * units + 4 * HEADS, 4 * num_classes + 8)
    return _precision(operators).itemsize * ((arriving + loops) * of_edge + 6 * loops * units)


def _precision(operators: GraphOperators) -> torch.dtype:
    """Return the type of weights and hidden units: 64 bits on a graph that several processes may share."""
    return torch.float32 if operators.communicator.counted_nodes is None else torch.float64


class AttentionNetwork(ReplicaWeights):
    r"""Two layers of GAT (Velickovic et al. 2018), with ReLU and dropout between them.

    .. math:: h_v \mapsto \sum_{u \in N(v) \cup \{v\}} \alpha_{vu} W h_u, \qquad
        \alpha_{v \cdot} = \mathrm{softmax}_u\, \mathrm{LeakyReLU}(a^T W h_u + b^T W h_v)

    Attention depends on the weights, so that nothing is propagated in advance, and replicas have nothing to share. In
    several processes each layer reads the rows of own nodes and of their halo; gradients of the halo go back to the
    processes that own it.

    Training amplifies rounding: after a hundred epochs, sums in another order would change probabilities in the first
    digit. So a graph that several processes may share is trained on in 64 bits.

    Initial weights come from torch's global generator, which is seeded here. The caller restores it.

    Args:
        operators: matrices of the graph.
        inputs: inputs of this process's nodes, [nodes, columns].
        num_classes: number of outputs.
        settings: settings of the network.
        loss_nodes: nodes of the logits for the loss.
        score_nodes: nodes of the logits for the score.
    """

    def __init__(
        self,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: ReplicaSettings,
        loss_nodes: NodeSubset = ALL_NODES,
        score_nodes: NodeSubset = ALL_NODES,
    ) -> None:
        torch.manual_seed(settings.seed)
        layer = pyg_module("nn").GATConv
        self._layers = nn.ModuleDict(
            {
                _FIRST: layer(inputs.shape[1], HIDDEN, heads=HEADS, add_self_loops=False),
                _SECOND: layer(HIDDEN * HEADS, num_classes, add_self_loops=False),
            }
        )
        initial = dict(self._layers.named_parameters())
        precision = _precision(operators)
        flat = torch.cat([each.detach().flatten() for each in initial.values()]).unsqueeze(0).to(precision)
        super().__init__(flat, {name: tuple(each.shape) for name, each in initial.items()}, [settings], operators)
        self._layers.to(operators.device)
        self._loss_nodes, self._score_nodes, self._nodes = loss_nodes, score_nodes, len(inputs)
        self._inputs = self._communicator.exchange_halo(inputs).to(precision)
        itself = torch.arange(len(self._inputs), device=operators.device)
        self._edges = torch.cat([operators.arriving_index, torch.stack([itself, itself])], dim=1)

    @property
    def generators(self) -> None:
        """None: an epoch is not captured."""
        return

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        """Return logits with dropout, for the loss, and without, for the score; both share the first layer."""
        hidden = self._hidden()
        if not self.dropout.active:
            logits = self._logits(hidden)
            return self._loss_nodes.select(logits), self._score_nodes.select(logits.detach().float())
        with torch.no_grad():
            evaluated = self._logits(hidden)
        masks = self.dropout.masks(hidden.shape[1], self._nodes)[0].T
        logits = self._logits(hidden * (masks * self.dropout.scales.view(())))
        return self._loss_nodes.select(logits), self._score_nodes.select(evaluated.float())

    def score_logits(self) -> Tensor:
        """Return logits without dropout for the score, [1, classes, score nodes]."""
        return self._score_nodes.select(self.prediction_logits())

    @torch.no_grad()
    def prediction_logits(self) -> Tensor:
        """Return logits without dropout of all nodes, [1, classes, nodes]."""
        return self._logits(self._hidden()).float()

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        """Return the weights by name, in 32 bits, on the CPU."""
        return [{name: part.float() for name, part in each.items()} for each in super().weights_by_replica()]

    def _hidden(self) -> Tensor:
        """Return the hidden units of this process's nodes, [nodes, units]."""
        return self._attend(_FIRST, self._inputs).relu()

    def _logits(self, hidden: Tensor) -> Tensor:
        """Return logits of this process's nodes, [1, classes, nodes]."""
        return self._attend(_SECOND, _with_halo(hidden, self._communicator)).T.unsqueeze(0)

    def _attend(self, layer: str, extended: Tensor) -> Tensor:
        """Apply a layer to the rows of own nodes and halo; return the rows of own nodes."""
        prefix = f"{layer}."
        parts = {name: part[0] for name, part in self.parts(self.weights).items()}
        own = {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}
        found: Tensor = functional_call(self._layers[layer], own, (extended, self._edges))
        return self._communicator.own_rows(found)


def _with_halo(rows: Tensor, communicator: Communicator) -> Tensor:
    """Return the rows of this process's nodes and of their halo, with a gradient."""
    if communicator.is_local:
        return rows
    extended: Tensor = _HaloExchange.apply(rows, communicator)  # type: ignore[no-untyped-call]
    return extended


class _HaloExchange(torch.autograd.Function):
    """`Communicator.exchange_halo`; its gradient is the transposed exchange."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, communicator: Communicator) -> Tensor:
        """Exchange the rows."""
        ctx.communicator = communicator
        return communicator.exchange_halo(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Send the gradients of the halo back."""
        (gradient,) = gradients
        return ctx.communicator.return_halo(gradient), None
