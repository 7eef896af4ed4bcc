"""What all methods with a GNN share: training, prediction, saving."""

from __future__ import annotations

import io
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.atomic_files import write_whole
from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, Method, Run, check_fit_input, training_nodes
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.engine.backbones import CONVOLUTIONS, HIDDEN, BackboneFactory, Convolution, module_factory
from veilgraph.models.engine.batch_planner import Batch, plan_batches
from veilgraph.models.engine.cuda_graphs import next_lane
from veilgraph.models.engine.device import resolve_device, threads_for
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.models.engine.module_network import ModuleNetwork
from veilgraph.models.engine.node_subset import EVERYWHERE, Asked, asked_by
from veilgraph.models.engine.replica_networks import ReplicaSettings, StackedNetworks, stacked_inputs
from veilgraph.models.engine.training_loop import LearningCurve, Networks, train
from veilgraph.progress import say
from veilgraph.reconstruct.features import columns_of
from veilgraph.reconstruct.operators import GraphOperators, operators_of

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
    curve: LearningCurve = field(init=False, repr=False, compare=False)
    _weights: dict[str, Tensor] | None = field(init=False, default=None, repr=False, compare=False)
    _probabilities: NDArray[np.float32] | None = field(init=False, default=None, repr=False, compare=False)

    @abstractmethod
    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """What the GNN sees of every node: [nodes, columns]."""

    @abstractmethod
    def _input_settings(self) -> Hashable:
        """The settings that `_inputs` depends on: fits to the same reports share inputs where they are the same."""

    @classmethod
    @abstractmethod
    def _loss(cls, runs: Sequence[Run], operators: GraphOperators, asked: Asked) -> Callable[[Tensor], Tensor]:
        """The objective of each run, as a function of logits [runs, classes, nodes] at the nodes that are asked."""

    def _loss_settings(self) -> Hashable:
        """The settings that runs must have in common for `_loss` to take them together."""
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
        run = Run(method=self, perturbed=perturbed, split=split, checkpoint=checkpoint)
        for _ in self.fit_together([run], memory=memory):
            pass
        return self

    @classmethod
    def fit_together(cls, runs: Sequence[Run], *, memory: int = DEFAULT_MEMORY) -> Iterator[Sequence[Run]]:
        """Fit many at once: runs on one graph are replicas of one computation where their networks have one shape.

        The same as fitting each on its own, up to the rounding of sums.
        """
        for finish in cls.start_together(runs, memory=memory):
            yield finish()

    @classmethod
    def start_together(
        cls, runs: Sequence[Run], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[Callable[[], Sequence[Run]]]:
        """`fit_together`, batch by batch: on a GPU, one may be under way while the next is got ready."""
        for run in runs:
            device = resolve_device(run.method.device)
            check_fit_input(run.perturbed, run.split, operators_of(run.perturbed.graph, device).communicator)
            run.method._check_settings()
        by_graph: dict[tuple[Any, torch.device, bool], list[Run]] = {}
        for run in runs:
            stackable = _convolution(run.method.backbone) is not None
            place = run.perturbed.graph, resolve_device(run.method.device), stackable
            by_graph.setdefault(place, []).append(run)
        for (graph, device, stackable), same_graph in by_graph.items():
            operators = operators_of(graph, device)
            counts = [count for run in same_graph for count in run.method.bag_counts()]
            operators.prepare_clusters(counts, workers=torch.get_num_threads())
            needs = _needs(same_graph[0].perturbed, memory, device, in_blocks=stackable)
            for batch in _plan(same_graph, operators, needs, memory):
                with threads_for(graph.num_nodes):
                    finish = _start_batch(cls, batch, operators, needs.block)
                yield finish

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities; for another graph its own reports are reconstructed and the GNN applied to them."""
        if self._weights is None or self._probabilities is None:
            raise FitError(f"{type(self).__name__} was not fitted yet: call fit(perturbed, split) first")
        if perturbed is None:
            return self._probabilities
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        inputs = partial(self._inputs, perturbed, operators)
        in_blocks = _convolution(self.backbone) is not None
        block = _needs(perturbed, DEFAULT_MEMORY, operators.device, in_blocks=in_blocks).block
        with torch.random.fork_rng():
            networks = _make_networks([self], [inputs], operators, self._probabilities.shape[1], block)
        networks.load(self._weights)
        (probabilities,) = _probabilities(networks.evaluate()).cpu().numpy()
        return np.asarray(probabilities)

    def save(self, folder: str | Path) -> None:
        """Write parameters (JSON) and weights (npz). Nothing that is saved is code."""
        probabilities = self.predict_proba()
        arrays: dict[str, Any] = {f"weight:{name}": tensor.numpy() for name, tensor in (self._weights or {}).items()}
        buffer = io.BytesIO()
        np.savez(buffer, probabilities=probabilities, **arrays)
        document = {
            "method": self.name,
            "parameters": self._parameters(),
            "curve": vars(self.curve),
        }
        write_whole(Path(folder) / "weights.npz", buffer.getvalue())
        write_whole(Path(folder) / "model.json", json.dumps(document, indent=2))

    @classmethod
    def load(cls, folder: str | Path, *, backbone: BackboneFactory | None = None, device: str = "auto") -> Self:
        """Read what `save` wrote; a model with a backbone of your own needs its factory again."""
        try:
            document = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
            weights = io.BytesIO((Path(folder) / "weights.npz").read_bytes())
            arrays = dict(np.load(weights, allow_pickle=False))
        except (OSError, ValueError, BadZipFile) as error:
            raise FitError(f"{folder} does not hold a readable model: {error}") from error
        if document.get("method") != cls.name:
            raise FitError(f"{folder} holds a model of '{document.get('method')}', not of '{cls.name}'")
        parameters: dict[str, Any] = document["parameters"]
        if parameters["backbone"] == "custom" and backbone is None:
            raise FitError(f"{folder} was trained with a backbone of your own: give load(..., backbone=factory)")
        parameters.update({"device": device}, **({"backbone": backbone} if backbone else {}))
        method = cls(**parameters)
        method.curve = LearningCurve(**document["curve"])
        method._probabilities = arrays.pop("probabilities")
        method._weights = {name.removeprefix("weight:"): torch.from_numpy(array) for name, array in arrays.items()}
        return method

    def _parameters(self) -> dict[str, Any]:
        parameters = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return parameters | ({"backbone": "custom"} if callable(self.backbone) else {})

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


def _plan(runs: Sequence[Run], operators: GraphOperators, needs: _Needs, memory: int) -> Iterator[Batch[Run]]:
    """Batches of runs on one graph; a module of the user's own is trained alone."""
    return plan_batches(
        runs,
        shape_of=lambda run: (
            id(run) if run.checkpoint is not None else _convolution(run.method.backbone) or id(run),
            run.method.epochs,
            run.method._loss_settings(),
            id(run.perturbed.schema),
        ),
        input_of=lambda run: (
            id(run.perturbed.features),
            run.perturbed.has_features.tobytes(),
            run.perturbed.feature_mechanism,
            run.method._input_settings(),
        ),
        input_bytes=needs.input_bytes,
        replica_bytes=needs.replica_bytes,
        memory=memory,
        device=operators.device,
    )


def _start_batch(
    cls: type[GNNMethod], batch: Batch[Run], operators: GraphOperators, block: int | None
) -> Callable[[], Sequence[Run]]:
    if block is not None:
        say(
            f"training: memory for all {operators.graph.num_nodes:,} nodes' hidden units is not allowed, "
            f"they are made again for blocks of at most {block:,}"
        )
    device, reports = operators.device, [run.perturbed for run in batch.runs]
    methods: list[GNNMethod] = [run.method for run in batch.runs]
    inputs = [partial(run.method._inputs, run.perturbed, operators) for run in batch.runs[:: batch.sharing]]
    selecting = [run.split.validation & run.perturbed.has_label for run in batch.runs]
    loss_asks = EVERYWHERE if cls._loss_of_all_nodes else asked_by(training_nodes(batch.runs), operators)
    score_asks = asked_by(selecting, operators)
    lane = next_lane(operators)
    with lane(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        networks = _make_networks(
            methods, inputs, operators, reports[0].schema.num_classes, block, loss_asks, score_asks
        )
        curves = train(
            networks,
            loss=cls._loss(batch.runs, operators, loss_asks),
            score=noisy_log_likelihood(reports, selecting, device, score_asks, operators.communicator),
            epochs=methods[0].epochs,
            checkpoint=batch.runs[0].checkpoint,
        )
        probabilities = _probabilities(networks.evaluate())

    def finish() -> Sequence[Run]:
        with lane():
            found = zip(curves(), networks.all_weights(), probabilities.cpu().numpy(), strict=True)
        for method, (curve, weights, predicted) in zip(methods, found, strict=True):
            method.curve, method._weights, method._probabilities = curve, weights, predicted
        return batch.runs

    return finish


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
