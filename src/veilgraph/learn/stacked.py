"""Two-layer GNNs of one shape on one graph, trained side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.learn.adam import ReplicaAdam
from veilgraph.learn.backbones import HIDDEN, Convolution
from veilgraph.learn.dropout import ReplicaDropout
from veilgraph.learn.node_blocks import in_node_blocks
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.propagation import repeated_product


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """What may differ between replicas that are trained together."""

    seed: int
    dropout: float
    learning_rate: float
    weight_decay: float


class StackedNetworks:
    r"""R replicas of :math:`Z = \mathrm{conv}_2(\mathrm{dropout}(\mathrm{relu}(\mathrm{conv}_1(X))))`.

    Rows of every array are units and columns are nodes, so that all products are batched matrix products and
    softmax runs along memory. The first convolution's propagated inputs do not change and are made once; the second
    multiplies before it propagates, all replicas' classes in one sparse product.

    Args:
        convolution: of both layers.
        operators: of the graph.
        inputs: propagated inputs [distinct, nodes, columns] from `stacked_inputs`; successive replicas share one.
        num_classes: outputs.
        settings: one for each replica.
        block: how many nodes' hidden units are held at once; None for all. They are made once more in the backward
            pass, so gradients are those of the whole graph.
    """

    def __init__(
        self,
        convolution: Convolution,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: Sequence[ReplicaSettings],
        block: int | None = None,
    ) -> None:
        self._block = block or inputs.shape[1]
        self._convolution, self._product = convolution, convolution.operator(operators)
        self._inputs, self._classes = inputs, num_classes
        self._settings = settings
        self._shapes = _shapes(convolution, inputs.shape[2], num_classes)
        initial = [_initial_weights(convolution, self._shapes, each.seed) for each in settings]
        self._weights = torch.stack(initial).to(operators.device).requires_grad_()
        self._best = self._weights.detach().clone()
        self._dropout = ReplicaDropout(
            [each.dropout for each in settings], [each.seed for each in settings], operators.device
        )
        self._optimizer = ReplicaAdam(
            self._weights,
            learning_rates=[each.learning_rate for each in settings],
            weight_decays=[each.weight_decay for each in settings],
        )

    @property
    def replicas(self) -> int:
        """How many."""
        return len(self._settings)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._weights.device

    @property
    def generators(self) -> list[torch.Generator]:
        """What an epoch draws from."""
        return self._dropout.generators

    def evaluate(self) -> Tensor:
        """Logits [replicas, classes, nodes] without dropout."""
        with torch.no_grad():
            return self._logits(self._outputs()[0])

    def passes(self) -> tuple[Tensor, Tensor]:
        """Logits with dropout, for the loss, and without, for the score; they share the first layer."""
        if not self._dropout.active:
            logits = self._logits(self._outputs()[0])
            return logits, logits.detach()
        complete, thinned = self._outputs(self._dropout.masks(HIDDEN, self._inputs.shape[1]))
        with torch.no_grad():
            evaluated = self._logits(complete)
        return self._logits(thinned), evaluated

    def step(self) -> None:
        """Move along the gradient."""
        self._optimizer.step()

    def keep(self, replicas: Tensor) -> None:
        """Remember the present weights of the replicas that are marked."""
        self._best.copy_(torch.where(replicas.unsqueeze(1), self._weights.detach(), self._best))

    def restore(self) -> None:
        """Go back to the weights that were kept."""
        with torch.no_grad():
            self._weights.copy_(self._best)

    def weights_of(self, replica: int) -> dict[str, Tensor]:
        """One replica's weights by name."""
        return {name: part[replica].detach().cpu() for name, part in self._parts(self._weights).items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Give every replica these weights."""
        flat = torch.cat([weights[name].flatten() for name in self._shapes])
        with torch.no_grad():
            self._weights.copy_(flat.to(self._weights.device).expand_as(self._weights))

    def _parts(self, weights: Tensor) -> dict[str, Tensor]:
        sizes = [rows * columns for rows, columns in self._shapes.values()]
        parts = torch.split(weights, sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def _outputs(self, masks: Tensor | None = None) -> tuple[Tensor, ...]:
        """What the second layer is to propagate, without dropout and, where there are masks, with it."""

        def outputs_of(weights: Tensor, nodes: slice) -> tuple[Tensor, ...]:
            hidden, second = self._first_layer(weights, nodes), self._parts(weights)["second.weight"]
            if masks is None:
                return (torch.bmm(second, hidden),)
            complete = torch.bmm(second.detach(), hidden.detach())
            return complete, torch.bmm(second * self._dropout.scales, hidden * masks[:, :, nodes])

        return in_node_blocks(outputs_of, self._weights, self._inputs.shape[1], self._block)

    def _first_layer(self, weights: Tensor, nodes: slice) -> Tensor:
        parts, inputs = self._parts(weights), self._inputs[:, nodes]
        distinct, count, columns = inputs.shape
        first = parts["first.weight"].reshape(distinct, -1, columns)
        bias = parts["first.bias"].reshape(distinct, -1, 1)
        return torch.baddbmm(bias, first, inputs.mT).relu_().view(-1, HIDDEN, count)

    def _logits(self, outputs: Tensor) -> Tensor:
        logits = self._product.along_nodes(outputs[:, : self._classes]) + self._parts(self._weights)["second.bias"]
        return logits + outputs[:, self._classes :] if self._convolution.own else logits


def stacked_inputs(
    convolution: Convolution, operators: GraphOperators, inputs: Sequence[Callable[[], Tensor]]
) -> Tensor:
    """What the first layer multiplies: [inputs, nodes, columns].

    Each input after propagation, beside itself where it enters on its own. It is made when it is its turn and written
    where it belongs, so that apart from the result no more than one exists.

    Args:
        convolution: of the first layer.
        operators: of the graph.
        inputs: each makes [nodes, columns].
    """
    stack: Tensor | None = None
    for place, make in enumerate(inputs):
        each = make()
        nodes, columns = each.shape
        if stack is None:
            stack = each.new_empty(len(inputs), nodes, columns * (2 if convolution.own else 1))
        repeated_product(convolution.operator(operators).matrix, each, 1, out=stack[place, :, :columns])
        if convolution.own:
            stack[place, :, columns:] = each
    if stack is None:
        raise ValueError("there are no inputs to stack: give at least one")
    return stack


def _shapes(convolution: Convolution, columns: int, num_classes: int) -> dict[str, tuple[int, int]]:
    ways = 2 if convolution.own else 1
    return {
        "first.weight": (HIDDEN, columns),
        "first.bias": (HIDDEN, 1),
        "second.weight": (num_classes * ways, HIDDEN),
        "second.bias": (num_classes, 1),
    }


def _initial_weights(convolution: Convolution, shapes: Mapping[str, tuple[int, int]], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ways = 2 if convolution.own else 1
    fans = {"first": (shapes["first.weight"][1] // ways, HIDDEN), "second": (HIDDEN, shapes["second.bias"][0])}

    def draw(name: str, rows: int, columns: int) -> Tensor:
        layer, kind = name.split(".")
        inputs, outputs = fans[layer]
        bound = convolution.bound(inputs, outputs) if kind == "weight" else convolution.bias_bound(inputs)
        return (torch.rand(rows * columns, generator=generator) * 2 - 1) * bound

    return torch.cat([draw(name, *shape) for name, shape in shapes.items()])
