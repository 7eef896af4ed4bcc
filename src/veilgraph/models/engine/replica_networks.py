"""Two-layer GNNs of one shape on one graph, trained together as replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from veilgraph.models.engine.backbones import HIDDEN, Convolution, ReplicaSettings
from veilgraph.models.engine.hidden_layer import HiddenLayer, Outputs
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset, OutputLayer
from veilgraph.models.engine.replica_weights import ReplicaWeights
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import repeated_product


class ReplicaNetworks(ReplicaWeights):
    r"""R replicas of :math:`Z = \mathrm{conv}_2(\mathrm{dropout}(\mathrm{relu}(\mathrm{conv}_1(X))))`.

    Rows of every array are units and columns are nodes: all products are batched matrix products, and softmax runs
    along memory. The first convolution's propagated inputs are constant and computed once. The second convolution
    multiplies before it propagates, with the classes of all replicas in one sparse product.

    Args:
        convolution: convolution of both layers.
        operators: matrices of the graph.
        inputs: propagated inputs [inputs, nodes, columns] from `stack_propagated_inputs`; successive replicas share
            an input.
        num_classes: number of outputs.
        settings: settings of each replica.
        loss_nodes: nodes of the logits for the loss.
        score_nodes: nodes of the logits for the score.
        block_nodes: number of nodes whose hidden units are held at once; None for all.
    """

    def __init__(
        self,
        convolution: Convolution,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: Sequence[ReplicaSettings],
        loss_nodes: NodeSubset = ALL_NODES,
        score_nodes: NodeSubset = ALL_NODES,
        block_nodes: int | None = None,
    ) -> None:
        shapes = _shapes(convolution, inputs.shape[2], num_classes)
        initial = {seed: _initial_weights(convolution, shapes, seed) for seed in {each.seed for each in settings}}
        super().__init__(torch.stack([initial[each.seed] for each in settings]), shapes, settings, operators)
        self._terms = 2 if convolution.has_own_term else 1
        self._loss_nodes, self._score_nodes = loss_nodes, score_nodes
        self._output_layers = {
            nodes: OutputLayer(convolution.operator(operators), nodes)
            for nodes in dict.fromkeys((ALL_NODES, loss_nodes, score_nodes))
        }
        self._hidden = HiddenLayer(inputs, self.dropout.mask_index, block_nodes=block_nodes)

    @property
    def generators(self) -> list[torch.Generator] | None:
        """Generators that an epoch uses; None where it cannot be captured: with other processes, or with counters."""
        captured = self._communicator.is_local and self._communicator.counted_nodes is None
        return self.dropout.generators if captured else None

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        """Return logits with dropout, for the loss, and without, for the score; both share the hidden layer."""
        first, bias, second = self._layers()
        if not self.dropout.active:
            outputs, _ = self._hidden(first, bias, second)
            logits = self._logits(outputs, self._loss_nodes)
            if self._score_nodes is self._loss_nodes:
                return logits, logits.detach()
            with torch.no_grad():
                return logits, self._logits(outputs, self._score_nodes)
        masked, unmasked = self._hidden(
            first,
            bias,
            second * self.dropout.scales,
            masks=self.dropout.masks(HIDDEN, self._hidden.nodes),
            second_unmasked=second.index_select(0, self.dropout.masked_replicas),
        )
        return self._logits(masked, self._loss_nodes), self._score_logits(masked, unmasked)

    def score_logits(self) -> Tensor:
        """Return logits without dropout for the score, [replicas, classes, score nodes]."""
        return self._logits_without_dropout(self._score_nodes)

    def prediction_logits(self) -> Tensor:
        """Return logits without dropout of all nodes, [replicas, classes, nodes]."""
        return self._logits_without_dropout(ALL_NODES)

    def _layers(self) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.parts(self.weights)
        second = parts["second.weight"].view(self.replicas, self._terms, -1, HIDDEN)
        return parts["first.weight"], parts["first.bias"], second

    @torch.no_grad()
    def _logits_without_dropout(self, nodes: NodeSubset) -> Tensor:
        outputs, _ = self._hidden(*self._layers())
        return self._logits(outputs, nodes)

    @torch.no_grad()
    def _score_logits(self, masked: Outputs, unmasked: Outputs) -> Tensor:
        """Return logits without dropout; for replicas without masks, the masked outputs are these already."""
        replicas = self.dropout.masked_replicas
        logits = self._logits(unmasked, self._score_nodes, replicas)
        if len(replicas) == self.replicas:
            return logits
        return self._logits(masked, self._score_nodes).index_copy_(0, replicas, logits)

    def _logits(self, outputs: Outputs, nodes: NodeSubset, replicas: Tensor | None = None) -> Tensor:
        """Return logits [replicas, classes, nodes] of all replicas, or of some."""
        logits, bias = self._output_layers[nodes](*outputs), self.parts(self.weights)["second.bias"]
        bias = bias if replicas is None else bias.index_select(0, replicas)
        return logits.view(len(bias), -1, logits.shape[1]) + bias


def stack_propagated_inputs(
    convolution: Convolution, operators: GraphOperators, inputs: Sequence[Callable[[], Tensor]]
) -> Tensor:
    """Return the inputs of the first layer, [inputs, nodes, columns].

    This is each input after propagation, and beside it the input itself if the convolution has an own term. Inputs are
    made one after another and written into the result, so that at most one exists besides it.

    Args:
        convolution: convolution of the first layer.
        operators: matrices of the graph.
        inputs: functions that make an input [nodes, columns].
    """
    stack: Tensor | None = None
    for index, make_input in enumerate(inputs):
        each = make_input()
        nodes, columns = each.shape
        if stack is None:
            stack = each.new_empty(len(inputs), nodes, columns * (2 if convolution.has_own_term else 1))
        product, part = convolution.operator(operators), stack[index, :, :columns]
        repeated_product(product.matrix, each, 1, out=part, communicator=product.communicator)
        if convolution.has_own_term:
            stack[index, :, columns:] = each
    if stack is None:
        raise ValueError("there are no inputs to stack: give at least one")
    return stack


def _shapes(convolution: Convolution, columns: int, num_classes: int) -> dict[str, tuple[int, int]]:
    terms = 2 if convolution.has_own_term else 1
    return {
        "first.weight": (HIDDEN, columns),
        "first.bias": (HIDDEN, 1),
        "second.weight": (num_classes * terms, HIDDEN),
        "second.bias": (num_classes, 1),
    }


def _initial_weights(convolution: Convolution, shapes: Mapping[str, tuple[int, int]], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    terms = 2 if convolution.has_own_term else 1
    fans = {"first": (shapes["first.weight"][1] // terms, HIDDEN), "second": (HIDDEN, shapes["second.bias"][0])}

    def draw(name: str, rows: int, columns: int) -> Tensor:
        layer, kind = name.split(".")
        inputs, outputs = fans[layer]
        bound = convolution.bound(inputs, outputs) if kind == "weight" else convolution.bias_bound(inputs)
        return (torch.rand(rows * columns, generator=generator) * 2 - 1) * bound

    return torch.cat([draw(name, *shape) for name, shape in shapes.items()])
