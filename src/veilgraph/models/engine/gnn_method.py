"""The base class of all methods that train a GNN: batching of fits, training, prediction."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import (
    DEFAULT_MEMORY,
    FitTask,
    Method,
    PendingFit,
    begin_fit,
    check_feature_reports,
    check_is_fitted,
    training_nodes,
)
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.engine.attention import AttentionNetwork
from veilgraph.models.engine.backbones import (
    CONVOLUTIONS,
    BackboneFactory,
    Convolution,
    ModuleNetwork,
    ReplicaSettings,
    check_backbone,
)
from veilgraph.models.engine.batch_planner import (
    BLOCK_NODES,
    CACHE_BYTES,
    Batch,
    MemoryEstimate,
    estimate_memory,
    plan_batches,
)
from veilgraph.models.engine.confidence import Confidence
from veilgraph.models.engine.cuda_graphs import StreamContext, next_stream
from veilgraph.models.engine.device import resolve_device, torch_threads_for
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset, needed_nodes
from veilgraph.models.engine.public_inputs import NO_INPUTS, PublicInputs
from veilgraph.models.engine.replica_networks import ReplicaNetworks, stack_propagated_inputs
from veilgraph.models.engine.training_loop import LearningCurve, Networks, Training, train
from veilgraph.models.parameters import Range
from veilgraph.models.saved_state import FittedState
from veilgraph.progress import say
from veilgraph.reconstruct.features import num_columns
from veilgraph.reconstruct.operators import GraphOperators, operators_of

G = TypeVar("G", bound="GNNMethod")

_CUSTOM = "custom"


@dataclass(kw_only=True)
class GNNMethod(Method):
    """A GNN whose subclass defines the network inputs and the loss.

    A subclass implements `network_inputs`, `input_settings` and `make_loss`. Where tasks with different settings cannot
    share one loss function, it also implements `loss_settings`. With `uses_public`, public columns stand beside its
    inputs as they are: they are not randomized, so nothing is reconstructed.

    Args:
        backbone: "sage", "gcn", "gat", or a function (num_inputs, num_classes) -> torch.nn.Module whose
            forward(x, edge_index) returns logits.
        dropout: dropout probability of the named backbones.
        learning_rate: learning rate of Adam.
        weight_decay: L2 penalty of Adam.
        epochs: number of full-batch steps.
        seed: seed of initial weights and dropout; the global generator of torch is not changed.
        device: "auto", "cpu" or "cuda".

    Attributes:
        loss_needs_all_nodes: whether the loss reads the logits of all nodes, and not of training nodes alone.
        curve_: learning curve of the fit.
        weights_: weights of the selected epoch, by name.
        temperature_: what logits are divided by before they become probabilities, see `Confidence`.
        doubt_: share of the uniform distribution in the probabilities, see `Confidence`.
        probabilities_: class probabilities of the fitted graph, [nodes, classes].
        public_inputs_: map from public columns to inputs.
    """

    loss_needs_all_nodes: ClassVar[bool] = False
    ranges: ClassVar[dict[str, Range]] = {
        "seed": Range(0),
        "epochs": Range(1),
        "dropout": Range(0, below=1),
        "learning_rate": Range(0, above=True),
        "weight_decay": Range(0),
    }

    backbone: str | BackboneFactory = "sage"
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 100
    seed: int = 0
    device: str = "auto"
    curve_: LearningCurve = field(init=False, repr=False, compare=False)
    weights_: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    temperature_: float = field(init=False, repr=False, compare=False)
    doubt_: float = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    public_inputs_: PublicInputs = field(init=False, default=NO_INPUTS, repr=False, compare=False)

    @abstractmethod
    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the inputs of the GNN, [nodes, columns]."""

    @abstractmethod
    def input_settings(self) -> Hashable:
        """Return the settings that `network_inputs` depends on; tasks with equal settings and reports share inputs."""

    def input_columns(self, perturbed: PerturbedGraph) -> int:
        """Return the number of columns of the inputs; by default, of the features as Algorithm 1 encodes them."""
        return sum(map(num_columns, perturbed.schema.domain_sizes))

    @property
    def public_columns(self) -> tuple[str, ...]:
        """Names of the public columns that the fitted method uses."""
        return self.public_inputs_.names

    def all_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the inputs of the GNN with the public ones beside them, [nodes, columns]."""
        return self.public_inputs_.beside(self.network_inputs(perturbed, operators), perturbed)

    @classmethod
    @abstractmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return the objective: a function from logits [tasks, classes, nodes] to one loss for each task, [tasks].

        Args:
            tasks: the tasks of a batch, with equal `loss_settings`.
            operators: matrices of the graph.
            nodes: the nodes of the logits.
        """

    def loss_settings(self) -> Hashable:
        """Return the settings that must be equal for tasks that share a loss function."""
        return None

    def fit(
        self,
        perturbed: PerturbedGraph,
        split: Split,
        *,
        checkpoint: Checkpoint | None = None,
        memory: int = DEFAULT_MEMORY,
    ) -> Self:
        """Train on reports of training nodes; keep the epoch that explains the reports of validation nodes best.

        Args:
            perturbed: the reports and the public graph.
            split: training, validation and test nodes.
            checkpoint: state of an interrupted fit, and the file for the state of this one.
            memory: limit for inputs and hidden units, in bytes. If it is short, hidden units are computed in blocks of
                nodes, with the same result.
        """
        task = FitTask(method=self, perturbed=perturbed, split=split, checkpoint=checkpoint)
        for _ in self.fit_together([task], memory=memory):
            pass
        return self

    @classmethod
    def start_together(
        cls,
        tasks: Sequence[FitTask[Self]],
        *,
        memory: int = DEFAULT_MEMORY,
        block_nodes: int = BLOCK_NODES,
        cache_bytes: int = CACHE_BYTES,
    ) -> Iterator[PendingFit[Self]]:
        """Start the fits batch by batch; on a GPU, one batch trains while the next one is prepared.

        Tasks on one graph become replicas of one computation where their networks have the same shape. Results equal
        those of separate fits, up to the rounding of sums.

        Args:
            tasks: tasks whose methods are of this class, on one graph or on several.
            memory: limit for all fits that run at the same time, in bytes.
            block_nodes: number of nodes in a block, where hidden units of all nodes do not fit into memory.
            cache_bytes: size of a batch on a CPU.
        """
        for task in tasks:
            device = resolve_device(task.method.device)
            communicator = operators_of(task.perturbed.graph, device).communicator
            begin_fit(task.method, task.perturbed, task.split, communicator)
            if cls.unmet_need(None) is not None:
                check_feature_reports(cls, task.perturbed, communicator)
        by_graph: dict[tuple[Graph, torch.device, bool, bool], list[FitTask[Self]]] = {}
        for task in tasks:
            backbone = task.method.backbone
            stackable = _convolution(backbone) is not None
            attention = not stackable and not callable(backbone)
            key = task.perturbed.graph, resolve_device(task.method.device), stackable, attention
            by_graph.setdefault(key, []).append(task)
        for (graph, device, stackable, attention), same_graph in by_graph.items():
            operators = operators_of(graph, device)
            counts = [count for task in same_graph for count in task.method.bag_counts()]
            operators.decompositions.prepare_clusters(counts, workers=torch.get_num_threads())
            for task in same_graph if cls.uses_public else ():
                task.method.public_inputs_ = PublicInputs.fit(task.perturbed, operators)
            columns = max(_num_inputs(task.method, task.perturbed) for task in same_graph)
            estimate = estimate_memory(
                same_graph[0].perturbed,
                columns,
                memory,
                device,
                supports_blocks=stackable,
                attention=attention,
                block_nodes=block_nodes,
            )
            for batch in _plan(same_graph, estimate, device, memory, cache_bytes):
                with torch_threads_for(graph.num_nodes):
                    pending = _start_batch(cls, batch, operators, estimate.block_nodes)
                yield pending

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes]; the inputs of another graph are made from its own reports."""
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_.copy()
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        if self.unmet_need(None) is not None:
            check_feature_reports(type(self), perturbed, operators.communicator)
        inputs = partial(self.all_inputs, perturbed, operators)
        supports_blocks, columns = _convolution(self.backbone) is not None, _num_inputs(self, perturbed)
        estimate = estimate_memory(
            perturbed, columns, DEFAULT_MEMORY, operators.device, supports_blocks=supports_blocks
        )
        classes = self.probabilities_.shape[1]
        with torch.random.fork_rng():
            networks = _make_networks([self], [inputs], operators, classes, estimate.block_nodes)
        try:
            networks.load_weights(self.weights_)
        except FitError as error:
            raise FitError(
                f"the weights are not those of a network for these reports: {error}; give the reports of the campaign "
                "that the model was trained for"
            ) from error
        logits = networks.prediction_logits()
        fitted = Confidence(
            temperatures=logits.new_tensor([self.temperature_]), doubts=logits.new_tensor([self.doubt_])
        )
        (probabilities,) = fitted.probabilities(logits).cpu().numpy()
        return np.asarray(probabilities)

    def fitted_state(self) -> FittedState:
        """Return learning curve and calibration as values, and the probabilities and weights as arrays."""
        weights = {f"weight:{name}": tensor.numpy() for name, tensor in self.weights_.items()}
        values = {"curve": vars(self.curve_), "temperature": self.temperature_, "doubt": self.doubt_}
        own = FittedState(values=values, arrays={"probabilities": self.probabilities_} | weights)
        return self.public_inputs_.added_to(own)

    def restore(self, state: FittedState) -> None:
        """Set what `fitted_state` returned; the network checks the weights' shapes when it takes them."""
        self.public_inputs_, state = PublicInputs.taken_from(state)
        arrays = dict(state.arrays)
        weights = {name: NDArray[Any] for name in arrays if name.startswith("weight:")}
        state.check(
            {
                "curve": dict[str, Any],
                "temperature": float,
                "doubt": float,
                "probabilities": NDArray[np.float32],
                **weights,
            }
        )
        FittedState(values=state.values["curve"]).check(get_type_hints(LearningCurve))
        self.curve_ = LearningCurve(**state.values["curve"])
        self.temperature_, self.doubt_ = float(state.values["temperature"]), float(state.values["doubt"])
        if not 0 < self.temperature_ < math.inf or not 0 <= self.doubt_ < 1:
            raise FitError(f"its temperature is {self.temperature_} and its doubt {self.doubt_}; no fit gives that")
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
        method.check_settings()
        return method

    def saved_parameters(self) -> dict[str, Any]:
        """Return the constructor parameters, JSON-ready: a backbone of the user's own is named "custom"."""
        return super().saved_parameters() | ({"backbone": _CUSTOM} if callable(self.backbone) else {})

    def check_settings(self) -> None:
        """Raise FitError if a training setting is out of range, or the backbone unknown."""
        super().check_settings()
        check_backbone(self.backbone)

    def replica_settings(self) -> ReplicaSettings:
        """Return the settings that may differ between replicas of a batch."""
        return ReplicaSettings(
            seed=self.seed,
            dropout=self.dropout,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )


def _plan(
    tasks: Sequence[FitTask[G]], estimate: MemoryEstimate, device: torch.device, memory: int, cache_bytes: int
) -> Iterator[Batch[FitTask[G]]]:
    """Plan the batches of tasks on one graph; convolutions without a checkpoint are trained together."""
    return plan_batches(
        tasks,
        shape_of=lambda task: (
            id(task) if task.checkpoint is not None else _convolution(task.method.backbone) or id(task),
            task.method.epochs,
            task.method.loss_settings(),
            _num_inputs(task.method, task.perturbed),
            id(task.perturbed.schema),
        ),
        input_of=lambda task: (task.method.input_settings(), _feature_key(task)),
        input_bytes=estimate.input_bytes,
        replica_bytes=estimate.replica_bytes,
        memory=memory,
        device=device,
        cache_bytes=cache_bytes,
    )


def _feature_key(task: FitTask[G]) -> Hashable:
    """Return a key of the feature reports that a task's inputs depend on."""
    reports = task.perturbed
    public = task.method.public_inputs_.names and reports.public
    if not task.method.uses_features:
        return public
    return id(reports.features), reports.has_features.tobytes(), reports.feature_mechanism, public


def _num_inputs(method: GNNMethod, perturbed: PerturbedGraph) -> int:
    """Return the number of inputs of the network, private and public ones."""
    return method.input_columns(perturbed) + method.public_inputs_.num_inputs


class _PendingBatch(PendingFit[G]):
    """A batch of replicas whose training was started.

    Args:
        tasks: one task for each replica.
        stream: CUDA stream of the batch.
        networks: the replicas, with the weights of the selected epoch.
        training: record of the epochs.
        confidence: calibration of the replicas.
        probabilities: predicted probabilities [replicas, nodes, classes].
    """

    def __init__(
        self,
        tasks: Sequence[FitTask[G]],
        *,
        stream: StreamContext,
        networks: Networks,
        training: Training,
        confidence: Confidence,
        probabilities: Tensor,
    ) -> None:
        super().__init__(tasks)
        self._stream, self._networks, self._training = stream, networks, training
        self._confidence, self._probabilities = confidence, probabilities

    def result(self) -> Sequence[FitTask[G]]:
        """Wait for the device, set the fitted attributes of the methods, and return the tasks."""
        with self._stream():
            curves, weights = self._training.curves(), self._networks.weights_by_replica()
            temperatures, doubts = self._confidence.temperatures.tolist(), self._confidence.doubts.tolist()
            probabilities = self._probabilities.cpu().numpy()
        for place, task in enumerate(self.tasks):
            method = task.method
            method.curve_, method.weights_ = curves[place], weights[place]
            method.temperature_, method.doubt_ = temperatures[place], doubts[place]
            method.probabilities_ = probabilities[place]
        return self.tasks


def _start_batch(
    cls: type[G], batch: Batch[FitTask[G]], operators: GraphOperators, block_nodes: int | None
) -> PendingFit[G]:
    if block_nodes is not None:
        say(
            f"training: hidden units of all {operators.graph.num_nodes:,} nodes do not fit into the memory limit, "
            f"they are computed again in blocks of at most {block_nodes:,} nodes"
        )
    device, reports = operators.device, [task.perturbed for task in batch.tasks]
    methods = [task.method for task in batch.tasks]
    inputs = [partial(task.method.all_inputs, task.perturbed, operators) for task in batch.tasks[:: batch.sharing]]
    validation = [task.split.validation & task.perturbed.has_label for task in batch.tasks]
    loss_nodes = ALL_NODES if cls.loss_needs_all_nodes else needed_nodes(training_nodes(batch.tasks), operators)
    score_nodes = needed_nodes(validation, operators)
    stream = next_stream(operators)
    with stream(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        networks = _make_networks(
            methods, inputs, operators, reports[0].schema.num_classes, block_nodes, loss_nodes, score_nodes
        )
        score = noisy_log_likelihood(reports, validation, device, score_nodes, operators.communicator)
        training = train(
            networks,
            loss=cls.make_loss(batch.tasks, operators, loss_nodes),
            score=score,
            epochs=methods[0].epochs,
            checkpoint=batch.tasks[0].checkpoint,
        )
        logits = networks.prediction_logits()
        confidence = Confidence.fit(score_nodes.select(logits), score)
        probabilities = confidence.probabilities(logits)
    return _PendingBatch(
        batch.tasks,
        stream=stream,
        networks=networks,
        training=training,
        confidence=confidence,
        probabilities=probabilities,
    )


def _make_networks(
    methods: Sequence[GNNMethod],
    inputs: Sequence[Callable[[], Tensor]],
    operators: GraphOperators,
    num_classes: int,
    block_nodes: int | None,
    loss_nodes: NodeSubset = ALL_NODES,
    score_nodes: NodeSubset = ALL_NODES,
) -> Networks:
    settings, backbone = [method.replica_settings() for method in methods], methods[0].backbone
    if (convolution := _convolution(backbone)) is not None:
        return ReplicaNetworks(
            convolution,
            operators,
            stack_propagated_inputs(convolution, operators, inputs),
            num_classes=num_classes,
            settings=settings,
            loss_nodes=loss_nodes,
            score_nodes=score_nodes,
            block_nodes=block_nodes,
        )
    (make_input,) = inputs
    alone: dict[str, Any] = {
        "num_classes": num_classes,
        "settings": settings[0],
        "loss_nodes": loss_nodes,
        "score_nodes": score_nodes,
    }
    if callable(backbone):
        return ModuleNetwork(backbone, operators, make_input(), **alone)
    return AttentionNetwork(operators, make_input(), **alone)


def _convolution(backbone: str | BackboneFactory) -> Convolution | None:
    """Return the convolution of a backbone that can be stacked; None for one that is trained alone."""
    return CONVOLUTIONS.get(backbone) if isinstance(backbone, str) else None
