"""What all methods with a GNN share: training, prediction, saving."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import (
    DEFAULT_MEMORY,
    FitTask,
    FittedState,
    Method,
    PendingFit,
    check_fit_input,
    check_is_fitted,
    training_nodes,
)
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.engine.backbones import CONVOLUTIONS, HIDDEN, BackboneFactory, Convolution, module_factory
from veilgraph.models.engine.batch_planner import Batch, plan_batches
from veilgraph.models.engine.cuda_graphs import Lane, next_lane
from veilgraph.models.engine.device import resolve_device, threads_for
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.models.engine.module_network import ModuleNetwork
from veilgraph.models.engine.node_subset import EVERYWHERE, Asked, asked_by
from veilgraph.models.engine.replica_networks import ReplicaSettings, StackedNetworks, stacked_inputs
from veilgraph.models.engine.training_loop import LearningCurve, Networks, Training, train
from veilgraph.progress import say
from veilgraph.reconstruct.features import columns_of
from veilgraph.reconstruct.operators import GraphOperators, operators_of

G = TypeVar("G", bound="GNNMethod")

_CUSTOM = "custom"
_BLOCK_NODES = 2**16
"""At most so many at once where memory is short: hidden units of so many keep a GPU busy. A processor takes fewer."""


@dataclass(kw_only=True)
class GNNMethod(Method):
    """A GNN on inputs that a subclass makes from reports, with a loss that a subclass defines.

    Args:
        backbone: "sage", "gcn", "gat", or a function (num_inputs, num_classes) -> torch.nn.Module whose
            forward(x, edge_index) gives logits.
        dropout: of the named backbones.
        learning_rate: of Adam.
        weight_decay: of Adam.
        epochs: full-batch steps.
        seed: of initial weights and dropout; torch's global state is left alone.
        device: "auto", "cpu" or "cuda".
    """

    _loss_of_all_nodes: ClassVar[bool] = False

    backbone: str | BackboneFactory = "sage"
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 100
    seed: int = 0
    device: str = "auto"
    curve_: LearningCurve = field(init=False, repr=False, compare=False)
    weights_: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    @abstractmethod
    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """What the GNN sees of every node: [nodes, columns]."""

    @abstractmethod
    def _input_settings(self) -> Hashable:
        """The settings that `_inputs` depends on: fits to the same reports share inputs where they are the same."""

    @classmethod
    @abstractmethod
    def _loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, asked: Asked
    ) -> Callable[[Tensor], Tensor]:
        """The objective of each task, as a function of logits [tasks, classes, nodes] at the nodes that are asked."""

    def _loss_settings(self) -> Hashable:
        """The settings that tasks must have in common for `_loss` to take them together."""
        return None

    def fit(
        self,
        perturbed: PerturbedGraph,
        split: Split,
        *,
        checkpoint: Checkpoint | None = None,
        memory: int = DEFAULT_MEMORY,
    ) -> Self:
        """Train on training reports; keep the epoch that explains the validation reports best.

        Args:
            perturbed: the reports.
            split: whose labels train and whose select.
            checkpoint: where an interrupted fit left off, and where this one leaves its state.
            memory: for inputs and hidden units, in bytes; little of it means blocks of nodes and the same result.
        """
        task = FitTask(method=self, perturbed=perturbed, split=split, checkpoint=checkpoint)
        for _ in self.fit_together([task], memory=memory):
            pass
        return self

    @classmethod
    def start_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Start the fits batch by batch; on a GPU, one batch trains while the next one is prepared.

        Tasks on one graph become replicas of one computation where their networks have the same shape. Results equal
        those of separate fits, up to the rounding of sums.
        """
        for task in tasks:
            device = resolve_device(task.method.device)
            check_fit_input(task.perturbed, task.split, operators_of(task.perturbed.graph, device).communicator)
            task.method._check_settings()
        by_graph: dict[tuple[Graph, torch.device, bool], list[FitTask[Self]]] = {}
        for task in tasks:
            stackable = _convolution(task.method.backbone) is not None
            place = task.perturbed.graph, resolve_device(task.method.device), stackable
            by_graph.setdefault(place, []).append(task)
        for (graph, device, stackable), same_graph in by_graph.items():
            operators = operators_of(graph, device)
            counts = [count for task in same_graph for count in task.method.bag_counts()]
            operators.prepare_clusters(counts, workers=torch.get_num_threads())
            needs = _needs(same_graph[0].perturbed, memory, device, in_blocks=stackable)
            for batch in _plan(same_graph, operators, needs, memory):
                with threads_for(graph.num_nodes):
                    finish = _start_batch(cls, batch, operators, needs.block)
                yield finish

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities; for another graph its own reports are reconstructed and the GNN applied to them."""
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        inputs = partial(self._inputs, perturbed, operators)
        in_blocks = _convolution(self.backbone) is not None
        block = _needs(perturbed, DEFAULT_MEMORY, operators.device, in_blocks=in_blocks).block
        with torch.random.fork_rng():
            networks = _make_networks([self], [inputs], operators, self.probabilities_.shape[1], block)
        networks.load(self.weights_)
        (probabilities,) = _probabilities(networks.evaluate()).cpu().numpy()
        return np.asarray(probabilities)

    def fitted_state(self) -> FittedState:
        """Return the learning curve as a value, and the probabilities and weights as arrays."""
        weights = {f"weight:{name}": tensor.numpy() for name, tensor in self.weights_.items()}
        return FittedState(values={"curve": vars(self.curve_)}, arrays={"probabilities": self.probabilities_} | weights)

    def restore(self, state: FittedState) -> None:
        """Set learning curve, probabilities and weights."""
        arrays = dict(state.arrays)
        self.curve_ = LearningCurve(**state.values["curve"])
        self.probabilities_ = arrays.pop("probabilities")
        self.weights_ = {name.removeprefix("weight:"): torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str = "auto", backbone: BackboneFactory | None = None, **replaced: Any
    ) -> Self:
        """Read a fitted method that `save` wrote.

        Args:
            folder: folder of the model.
            device: device for predictions; the device of the fit may not exist here.
            backbone: the factory of a backbone of your own, which is code and therefore not saved.
            replaced: other parameters to replace, by name.
        """
        method = super().load(folder, device=device, **replaced | ({} if backbone is None else {"backbone": backbone}))
        if method.backbone == _CUSTOM:
            raise FitError(f"{folder} was trained with a backbone of your own: give load(..., backbone=factory)")
        return method

    def parameters(self) -> dict[str, Any]:
        """Return the constructor parameters, JSON-ready: a backbone of the user's own is named "custom"."""
        return super().parameters() | ({"backbone": _CUSTOM} if callable(self.backbone) else {})

    def _check_settings(self) -> None:
        for name, value, fits, remedy in (
            ("epochs", self.epochs, self.epochs >= 1, "train for at least 1"),
            ("dropout", self.dropout, 0 <= self.dropout < 1, "it must be 0 or more and below 1"),
            ("learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf, "it must be above 0"),
            ("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "it must be 0 or more"),
        ):
            if not fits:
                raise FitError(f"{name} is {value}: {remedy}")

    def _replica_settings(self) -> ReplicaSettings:
        return ReplicaSettings(
            seed=self.seed,
            dropout=self.dropout,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """Bytes of one fit.

    Attributes:
        input_bytes: of an input.
        replica_bytes: of a replica in training, apart from its input.
        block: how many nodes' hidden units are held at once; None for all.
    """

    input_bytes: int
    replica_bytes: int
    block: int | None


def _needs(perturbed: PerturbedGraph, memory: int, device: torch.device, *, in_blocks: bool) -> _Needs:
    """Hidden units of all nodes at once where memory allows it, otherwise of one block of nodes after another.

    Args:
        perturbed: what is fitted.
        memory: that is allowed.
        device: where it is fitted.
        in_blocks: whether the network can be computed in blocks; a module of the user's own cannot.
    """
    nodes, classes = perturbed.graph.num_nodes, perturbed.schema.num_classes
    columns = sum(map(columns_of, perturbed.schema.domain_sizes))
    # Single-precision numbers: both halves of an input, and one of them before it is stacked, or on a GPU both once
    # more in parts; some arrays of the hidden layer and of classes. In blocks, of the hidden layer only the dropout
    # mask has all nodes.
    halves = 3 if device.type == "cpu" else 4
    inputs, whole, blocks = (
        4 * nodes * width for width in (halves * columns, 6 * (HIDDEN + classes), HIDDEN + 12 * classes)
    )
    if inputs + whole <= memory or nodes <= _BLOCK_NODES or not in_blocks:
        return _Needs(input_bytes=inputs, replica_bytes=whole, block=None)
    return _Needs(input_bytes=inputs, replica_bytes=blocks, block=_BLOCK_NODES)


def _plan(
    tasks: Sequence[FitTask[G]], operators: GraphOperators, needs: _Needs, memory: int
) -> Iterator[Batch[FitTask[G]]]:
    """Batches of tasks on one graph; a module of the user's own is trained alone."""
    return plan_batches(
        tasks,
        shape_of=lambda task: (
            id(task) if task.checkpoint is not None else _convolution(task.method.backbone) or id(task),
            task.method.epochs,
            task.method._loss_settings(),
            id(task.perturbed.schema),
        ),
        input_of=lambda task: (
            id(task.perturbed.features),
            task.perturbed.has_features.tobytes(),
            task.perturbed.feature_mechanism,
            task.method._input_settings(),
        ),
        input_bytes=needs.input_bytes,
        replica_bytes=needs.replica_bytes,
        memory=memory,
        device=operators.device,
    )


class _PendingBatch(PendingFit[G]):
    """A batch of replicas that is being trained.

    Args:
        tasks: one task for each replica.
        stream: CUDA stream of the batch.
        networks: the replicas, with the weights of the selected epoch.
        training: record of the epochs.
        probabilities: predicted probabilities [replicas, nodes, classes].
    """

    def __init__(
        self,
        tasks: Sequence[FitTask[G]],
        *,
        stream: Lane,
        networks: Networks,
        training: Training,
        probabilities: Tensor,
    ) -> None:
        super().__init__(tasks)
        self._stream, self._networks, self._training = stream, networks, training
        self._probabilities = probabilities

    def result(self) -> Sequence[FitTask[G]]:
        """Wait for the device, and store the results in the methods."""
        with self._stream():
            curves, weights = self._training.curves(), self._networks.all_weights()
            probabilities = self._probabilities.cpu().numpy()
        for task, curve, own_weights, predicted in zip(self.tasks, curves, weights, probabilities, strict=True):
            task.method.curve_, task.method.weights_, task.method.probabilities_ = curve, own_weights, predicted
        return self.tasks


def _start_batch(cls: type[G], batch: Batch[FitTask[G]], operators: GraphOperators, block: int | None) -> PendingFit[G]:
    if block is not None:
        say(
            f"training: memory for all {operators.graph.num_nodes:,} nodes' hidden units is not allowed, "
            f"they are made again for blocks of at most {block:,}"
        )
    device, reports = operators.device, [task.perturbed for task in batch.tasks]
    methods = [task.method for task in batch.tasks]
    inputs = [partial(task.method._inputs, task.perturbed, operators) for task in batch.tasks[:: batch.sharing]]
    selecting = [task.split.validation & task.perturbed.has_label for task in batch.tasks]
    loss_asks = EVERYWHERE if cls._loss_of_all_nodes else asked_by(training_nodes(batch.tasks), operators)
    score_asks = asked_by(selecting, operators)
    stream = next_lane(operators)
    with stream(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        networks = _make_networks(
            methods, inputs, operators, reports[0].schema.num_classes, block, loss_asks, score_asks
        )
        training = train(
            networks,
            loss=cls._loss(batch.tasks, operators, loss_asks),
            score=noisy_log_likelihood(reports, selecting, device, score_asks, operators.communicator),
            epochs=methods[0].epochs,
            checkpoint=batch.tasks[0].checkpoint,
        )
        probabilities = _probabilities(networks.evaluate())
    return _PendingBatch(batch.tasks, stream=stream, networks=networks, training=training, probabilities=probabilities)


def _make_networks(
    methods: Sequence[GNNMethod],
    inputs: Sequence[Callable[[], Tensor]],
    operators: GraphOperators,
    num_classes: int,
    block: int | None,
    loss_asks: Asked = EVERYWHERE,
    score_asks: Asked = EVERYWHERE,
) -> Networks:
    settings = [method._replica_settings() for method in methods]
    if (convolution := _convolution(methods[0].backbone)) is None:
        factory = module_factory(methods[0].backbone, methods[0].dropout)
        (make_input,) = inputs
        return ModuleNetwork(
            factory,
            operators,
            make_input(),
            num_classes=num_classes,
            settings=settings[0],
            loss_asks=loss_asks,
            score_asks=score_asks,
        )
    return StackedNetworks(
        convolution,
        operators,
        stacked_inputs(convolution, operators, inputs),
        num_classes=num_classes,
        settings=settings,
        loss_asks=loss_asks,
        score_asks=score_asks,
        block=block,
    )


def _convolution(backbone: str | BackboneFactory) -> Convolution | None:
    """What a backbone stacks; None for modules, which are trained one at a time."""
    return CONVOLUTIONS.get(backbone) if isinstance(backbone, str) else None


def _probabilities(logits: Tensor) -> Tensor:
    """[replicas, nodes, classes] from logits [replicas, classes, nodes]."""
    return logits.softmax(dim=1).mT.contiguous()
