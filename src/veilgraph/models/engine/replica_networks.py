"""Two-layer GNNs of one shape on one graph, trained together as replicas, and their Adam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, distributed, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from veilgraph.distributed.communicator import Communicator
from veilgraph.distributed.process_group import communication
from veilgraph.models.engine.backbones import HIDDEN, Convolution, ReplicaSettings
from veilgraph.models.engine.hidden_layer import HiddenLayer, Outputs
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset, OutputLayer
from veilgraph.models.engine.replica_dropout import ReplicaDropout
from veilgraph.models.saved_state import check_layout
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import repeated_product

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class ReplicaAdam:
    r"""Adam (Kingma and Ba 2015) on weights with one row for each replica.

    .. math:: \theta \leftarrow \theta - \eta_r \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + 10^{-8}}

    The optimizer of torch has one learning rate for a tensor; replicas that are trained together may differ in it.

    Args:
        weights: [replicas, parameters], changed in place.
        learning_rates: eta of each replica.
        weight_decays: weight of the L2 penalty of each replica.

    >>> weights = torch.zeros(2, 1, requires_grad=True)
    >>> optimizer = ReplicaAdam(weights, learning_rates=[0.1, 0.2], weight_decays=[0.0, 0.0])
    >>> weights.sum().backward()
    >>> optimizer.step()
    >>> [round(weight.item(), 4) for weight in weights]  # the first step is one learning rate long
    [-0.1, -0.2]
    """

    def __init__(self, weights: Tensor, *, learning_rates: list[float], weight_decays: list[float]) -> None:
        self.weights = weights
        self._rates = torch.tensor(learning_rates, device=weights.device).unsqueeze(1)
        self._decays = torch.tensor(weight_decays, device=weights.device).unsqueeze(1)
        self._decaying = any(weight_decays)
        self._mean, self._square = torch.zeros_like(weights), torch.zeros_like(weights)
        self._steps = torch.zeros((), device=weights.device)

    @property
    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, besides the weights and their gradient."""
        return {"adam.mean": self._mean, "adam.square": self._square, "adam.steps": self._steps}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])

    @torch.no_grad()
    def step(self) -> None:
        """Apply the gradient and clear it."""
        gradient, self.weights.grad = self.weights.grad, None
        if gradient is None:
            raise RuntimeError("there is no gradient: call backward() first")
        if self._decaying:
            gradient = gradient + self._decays * self.weights
        self._steps.add_(1)
        self._mean.lerp_(gradient, 1 - _BETA_1)
        self._square.mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        scale = (self._square / (1 - torch.pow(_BETA_2, self._steps))).sqrt_().add_(_EPSILON)
        self.weights.sub_(self._rates / (1 - torch.pow(_BETA_1, self._steps)) * self._mean / scale)


class SharedWeights:
    """Weights whose gradient after backward() is the sum over all processes.

    DistributedDataParallel averages gradients, because it expects one objective for each process. Here all processes
    share one objective, and each has the gradient of its own nodes' terms, so that a communication hook adds them up.
    There is one parameter, whose gradient is complete at the end of a backward pass: halo exchanges never come in
    between, and all processes communicate in the same order. A single process has nothing to share.

    Args:
        weights: one tensor, which the optimizer changes in place; all processes start with those of the first.
        communicator: collective operations over the processes that train them.

    >>> from veilgraph.distributed.communicator import LOCAL
    >>> weights = nn.Parameter(Tensor([1.0, 2.0]))
    >>> SharedWeights(weights, LOCAL)() is weights
    True
    """

    def __init__(self, weights: nn.Parameter, communicator: Communicator) -> None:
        self._weights, self._parallel = weights, None
        if not communicator.is_local:
            with communication():
                self._parallel = DistributedDataParallel(_Weights(weights))
                # A lambda, because torch rejects hooks with other annotations than its own.
                self._parallel.register_comm_hook(None, lambda state, bucket: _summed(bucket))

    def __call__(self) -> Tensor:
        """Return the weights for a pass whose gradient is to be summed."""
        if self._parallel is None:
            return self._weights
        with communication():
            weights: Tensor = self._parallel()
        return weights


class _Weights(nn.Module):
    def __init__(self, weights: nn.Parameter) -> None:
        super().__init__()
        self.weights = weights

    def forward(self) -> Tensor:
        return self.weights


class _Bucket(Protocol):
    """The gradients that torch passes to a communication hook."""

    def buffer(self) -> Tensor:
        """Return all gradients, in one tensor."""
        ...


def _summed(bucket: _Bucket) -> Future[Tensor]:
    """Sum a gradient over processes. It waits for the result, so that a lost process raises its error here."""
    with communication():
        work = distributed.all_reduce(bucket.buffer(), async_op=True)
        work.wait()
    total: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return total


class ReplicaNetworks:
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

    Attributes:
        weights: all parameters, [replicas, parameters].
        dropout: dropout masks of the replicas.
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
        self._communicator = operators.communicator
        self._settings, self._terms = settings, 2 if convolution.has_own_term else 1
        self._loss_nodes, self._score_nodes = loss_nodes, score_nodes
        self._output_layers = {
            nodes: OutputLayer(convolution.operator(operators), nodes)
            for nodes in dict.fromkeys((ALL_NODES, loss_nodes, score_nodes))
        }
        self._shapes = _shapes(convolution, inputs.shape[2], num_classes)
        initial = {seed: _initial_weights(convolution, self._shapes, seed) for seed in {each.seed for each in settings}}
        self.weights = nn.Parameter(torch.stack([initial[each.seed] for each in settings]).to(operators.device))
        self._shared_weights = SharedWeights(self.weights, operators.communicator)
        self._best = self.weights.detach().clone()
        self.dropout = ReplicaDropout(
            [each.dropout for each in settings],
            [each.seed for each in settings],
            operators.device,
            operators.communicator,
        )
        self._hidden = HiddenLayer(inputs, self.dropout.mask_index, block_nodes=block_nodes)
        self._optimizer = ReplicaAdam(
            self.weights,
            learning_rates=[each.learning_rate for each in settings],
            weight_decays=[each.weight_decay for each in settings],
        )

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return len(self._settings)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.weights.device

    @property
    def generators(self) -> list[torch.Generator] | None:
        """Generators that an epoch uses; None where it cannot be captured: with other processes, or with counters."""
        captured = self._communicator.is_local and self._communicator.counted_nodes is None
        return self.dropout.generators if captured else None

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        """Return logits with dropout, for the loss, and without, for the score; both share the hidden layer."""
        weights = self._shared_weights()
        first, bias, second = self._layers(weights)
        if not self.dropout.active:
            outputs, _ = self._hidden(first, bias, second)
            logits = self._logits(outputs, self._loss_nodes, weights)
            if self._score_nodes is self._loss_nodes:
                return logits, logits.detach()
            with torch.no_grad():
                return logits, self._logits(outputs, self._score_nodes, weights)
        masked, unmasked = self._hidden(
            first,
            bias,
            second * self.dropout.scales,
            masks=self.dropout.masks(HIDDEN, self._hidden.nodes),
            second_unmasked=second.index_select(0, self.dropout.masked_replicas),
        )
        return self._logits(masked, self._loss_nodes, weights), self._score_logits(masked, unmasked)

    def score_logits(self) -> Tensor:
        """Return logits without dropout for the score, [replicas, classes, score nodes]."""
        return self._logits_without_dropout(self._score_nodes)

    def prediction_logits(self) -> Tensor:
        """Return logits without dropout of all nodes, [replicas, classes, nodes]."""
        return self._logits_without_dropout(ALL_NODES)

    def step(self) -> None:
        """Apply one optimizer step with the present gradient."""
        self._optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """Return everything that the next epoch depends on, by name."""
        return {"weights": self.weights.detach(), "best": self._best, **self._optimizer.state, **self.dropout.state}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that `state` returned."""
        with torch.no_grad():
            self.weights.copy_(state["weights"])
        self._best.copy_(state["best"])
        self._optimizer.resume(state)
        self.dropout.resume(state)

    def keep_best(self, improved: Tensor) -> None:
        """Remember the present weights of the replicas that improved, a mask [replicas]."""
        self._best.copy_(torch.where(improved.unsqueeze(1), self.weights.detach(), self._best))

    def restore_best(self) -> None:
        """Return to the weights that `keep_best` remembered."""
        with torch.no_grad():
            self.weights.copy_(self._best)

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        """Return the weights of each replica by name, on the CPU."""
        parts = self._parts(self.weights.detach().cpu())
        return [{name: part[replica] for name, part in parts.items()} for replica in range(self.replicas)]

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights of every replica; refuse weights of another network."""
        check_layout(weights, self.weights_by_replica()[0])
        flat = torch.cat([weights[name].flatten() for name in self._shapes])
        with torch.no_grad():
            self.weights.copy_(flat.to(self.weights.device).expand_as(self.weights))

    def _parts(self, weights: Tensor) -> dict[str, Tensor]:
        sizes = [rows * columns for rows, columns in self._shapes.values()]
        parts = torch.split(weights, sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def _layers(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = self._parts(weights)
        second = parts["second.weight"].view(self.replicas, self._terms, -1, HIDDEN)
        return parts["first.weight"], parts["first.bias"], second

    @torch.no_grad()
    def _logits_without_dropout(self, nodes: NodeSubset) -> Tensor:
        outputs, _ = self._hidden(*self._layers(self.weights))
        return self._logits(outputs, nodes, self.weights)

    @torch.no_grad()
    def _score_logits(self, masked: Outputs, unmasked: Outputs) -> Tensor:
        """Return logits without dropout; for replicas without masks, the masked outputs are these already."""
        replicas = self.dropout.masked_replicas
        logits = self._logits(unmasked, self._score_nodes, self.weights, replicas)
        if len(replicas) == self.replicas:
            return logits
        return self._logits(masked, self._score_nodes, self.weights).index_copy_(0, replicas, logits)

    def _logits(self, outputs: Outputs, nodes: NodeSubset, weights: Tensor, replicas: Tensor | None = None) -> Tensor:
        """Return logits [replicas, classes, nodes] of all replicas, or of some."""
        logits, bias = self._output_layers[nodes](*outputs), self._parts(weights)["second.bias"]
        bias = bias if replicas is None else bias.index_select(0, replicas)
        return logits.view(len(bias), -1, logits.shape[1]) + bias


def stack_propagated_inputs(
    convolution: Convolution, operators: GraphOperators, inputs: Sequence[Callable[[], Tensor]]
) -> Tensor:
    """Return what the first layer multiplies, [inputs, nodes, columns].

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
