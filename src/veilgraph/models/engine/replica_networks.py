"""Two-layer GNNs of one shape on one graph, trained side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veilgraph.models.engine.backbones import HIDDEN, Convolution
from veilgraph.models.engine.gradient_sync import SharedWeights
from veilgraph.models.engine.hidden_layer import HiddenLayer
from veilgraph.models.engine.node_subset import EVERYWHERE, Asked
from veilgraph.models.engine.output_layer import Readout
from veilgraph.models.engine.replica_adam import ReplicaAdam
from veilgraph.models.engine.replica_dropout import ReplicaDropout
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
        loss_asks: nodes of the logits for the loss.
        score_asks: nodes of the logits for the score.
        block: how many nodes' hidden units are held at once; None for all.
    """

    def __init__(
        self,
        convolution: Convolution,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: Sequence[ReplicaSettings],
        loss_asks: Asked = EVERYWHERE,
        score_asks: Asked = EVERYWHERE,
        block: int | None = None,
    ) -> None:
        self._communicator = operators.communicator
        self._settings, self._ways = settings, 2 if convolution.own else 1
        self._loss_asks, self._score_asks = loss_asks, score_asks
        self._readouts = {
            asked: Readout(convolution.operator(operators), asked)
            for asked in dict.fromkeys((EVERYWHERE, loss_asks, score_asks))
        }
        self._shapes = _shapes(convolution, inputs.shape[2], num_classes)
        initial = {seed: _initial_weights(convolution, self._shapes, seed) for seed in {each.seed for each in settings}}
        self._weights = nn.Parameter(torch.stack([initial[each.seed] for each in settings]).to(operators.device))
        self._shared = SharedWeights(self._weights, operators.communicator)
        self._best = self._weights.detach().clone()
        self._dropout = ReplicaDropout(
            [each.dropout for each in settings],
            [each.seed for each in settings],
            operators.device,
            operators.communicator,
        )
        self._hidden = HiddenLayer(inputs, self._dropout.mask_of, block=block)
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
    def generators(self) -> list[torch.Generator] | None:
        """What an epoch draws from; not told where it talks to other processes, which cannot be recorded."""
        return self._dropout.generators if self._communicator.is_local else None

    def evaluate(self) -> Tensor:
        """Logits [replicas, classes, nodes] of all nodes without dropout."""
        with torch.no_grad():
            return self._logits(self._hidden.outputs(*self._layers(self._weights)), EVERYWHERE, self._weights)

    def scored(self) -> Tensor:
        """Logits for the score alone."""
        with torch.no_grad():
            return self._logits(self._hidden.outputs(*self._layers(self._weights)), self._score_asks, self._weights)

    def passes(self) -> tuple[Tensor, Tensor]:
        """Logits with dropout, for the loss, and without, for the score; they share the first layer."""
        weights = self._shared()
        if not self._dropout.active:
            outputs = self._hidden.outputs(*self._layers(weights))
            logits = self._logits(outputs, self._loss_asks, weights)
            if self._score_asks is self._loss_asks:
                return logits, logits.detach()
            with torch.no_grad():
                return logits, self._logits(outputs, self._score_asks, weights)
        masks = self._dropout.masks(HIDDEN, self._hidden.nodes)
        first, bias, second = self._layers(weights)
        thinned, complete = self._hidden.both_outputs(
            first, bias, second * self._dropout.scales, second.index_select(0, self._dropout.thinned), masks
        )
        return self._logits(thinned, self._loss_asks, weights), self._evaluated(thinned, complete)

    def step(self) -> None:
        """Move along the gradient."""
        self._optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """All that the next epoch depends on."""
        return {"weights": self._weights.detach(), "best": self._best, **self._optimizer.state, **self._dropout.state}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        with torch.no_grad():
            self._weights.copy_(state["weights"])
        self._best.copy_(state["best"])
        self._optimizer.resume(state)
        self._dropout.resume(state)

    def keep(self, replicas: Tensor) -> None:
        """Remember the present weights of the replicas that are marked."""
        self._best.copy_(torch.where(replicas.unsqueeze(1), self._weights.detach(), self._best))

    def restore(self) -> None:
        """Go back to the weights that were kept."""
        with torch.no_grad():
            self._weights.copy_(self._best)

    def all_weights(self) -> list[dict[str, Tensor]]:
        """Each replica's weights by name."""
        parts = self._parts(self._weights.detach().cpu())
        return [{name: part[replica] for name, part in parts.items()} for replica in range(self.replicas)]

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Give every replica these weights."""
        flat = torch.cat([weights[name].flatten() for name in self._shapes])
        with torch.no_grad():
            self._weights.copy_(flat.to(self._weights.device).expand_as(self._weights))

    def _parts(self, weights: Tensor) -> dict[str, Tensor]:
        sizes = [rows * columns for rows, columns in self._shapes.values()]
        parts = torch.split(weights, sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def _layers(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = self._parts(weights)
        second = parts["second.weight"].view(self.replicas, self._ways, -1, HIDDEN)
        return parts["first.weight"], parts["first.bias"], second

    @torch.no_grad()
    def _evaluated(self, thinned: tuple[Tensor, ...], complete: tuple[Tensor, ...]) -> Tensor:
        """Logits for the score: of replicas that drop nothing, what is there already."""
        which = self._dropout.thinned
        evaluated = self._logits(complete, self._score_asks, self._weights, which)
        if len(which) == self.replicas:
            return evaluated
        return self._logits(thinned, self._score_asks, self._weights).index_copy_(0, which, evaluated)

    def _logits(
        self, outputs: tuple[Tensor, ...], asked: Asked, weights: Tensor, replicas: Tensor | None = None
    ) -> Tensor:
        """[replicas, classes, nodes], of all replicas or of some."""
        logits, bias = self._readouts[asked](*outputs), self._parts(weights)["second.bias"]
        bias = bias if replicas is None else bias.index_select(0, replicas)
        return logits.view(len(bias), -1, logits.shape[1]) + bias


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
        product, part = convolution.operator(operators), stack[place, :, :columns]
        repeated_product(product.matrix, each, 1, out=part, communicator=product.communicator)
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
