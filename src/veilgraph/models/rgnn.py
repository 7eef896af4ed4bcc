"""Algorithm 3: a GNN on reconstructed features and labels, regularised by bag proportions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, PendingFit, training_nodes
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import ProportionLoss, cross_entropy, reported_targets, weighted_targets
from veilgraph.models.engine.output_layer import NodeSubset
from veilgraph.models.parameters import Range
from veilgraph.models.saved_state import FittedState
from veilgraph.reconstruct import reconstruct_features
from veilgraph.reconstruct.bags import Bags, bags_of_draws
from veilgraph.reconstruct.features import Decoding, one_hot_features
from veilgraph.reconstruct.labels import decode_label_draws
from veilgraph.reconstruct.operators import GraphOperators, operators_of

_TRIED_HOPS = ((1, 1), (2, 1), (4, 2), (8, 4), (16, 8))
"""K_x and K_y that are tried: features are noisier than labels, and take more hops."""

_TRIAL_EPOCHS = 40
"""Epochs of a network that helps to choose hops: their order hardly changes afterwards."""


@dataclass(kw_only=True)
class RGNN(GNNMethod):
    r"""RGNN, the paper's method.

    Reconstruct features (Algorithm 1) and labels (Algorithm 2), then minimise

    .. math:: \mathcal L_{gnn} + \alpha \mathcal L_{llp}

    the cross-entropy of training nodes against their reconstructed labels, and the divergence of predicted from
    estimated label proportions in METIS bags.

    The network is overconfident: on Citeseer at epsilon_x = 1 and epsilon_y = 3, softmax probabilities of 0.99 and more
    were right 60 % of the time. `predict_proba` is calibrated with the reports of validation nodes (`Confidence`). That
    lowers the expected calibration error there from 0.25 to 0.08, and changes no predicted class.

    Hops that are None are chosen. Networks with few and with many hops are trained for some epochs, without the labels
    of validation nodes. The hops of the fit are those of the network that explains these labels best. No rule of the
    public graph alone does as well: graphs of the same size and mean degree differ in how soon a neighbourhood mixes.

    Args:
        feature_hops: K_x, the hops of Algorithm 1; None chooses them.
        label_hops: K_y, the hops of Algorithm 2; None chooses them.
        num_clusters: C, the number of bags.
        llp_weight: alpha, the weight of the proportion loss.
        decoding: input encoding of features with more than two values: "distribution" or "argmax".
        reconstruct_x: use Algorithm 1; False trains on the reports themselves (the ablation without f_X).
        reconstruct_y: use Algorithm 2; False trains on the reported labels (the ablation without f_Y).
        use_proportions: use the bags; False is the ablation without LLP.
        estimate: undo the bias of the randomization; False is propagation without estimation.
        hold_out_validation: keep the labels of validation nodes out of Algorithm 2 as well as out of the loss. A search
            for hyperparameters needs validation reports that the model has not seen. Otherwise they take part in the
            propagation, as in the paper.

    Attributes:
        hops_: after a fit that chose hops, K_x and K_y.

    >>> RGNN(feature_hops=4, label_hops=2).hops
    (4, 2)
    """

    name: ClassVar[str] = "rgnn"
    uses_public: ClassVar[bool] = True
    ranges: ClassVar[dict[str, Range]] = GNNMethod.ranges | {
        "feature_hops": Range(0),
        "label_hops": Range(0),
        "num_clusters": Range(1),
        "llp_weight": Range(0),
    }

    feature_hops: int | None = None
    label_hops: int | None = None
    num_clusters: int = 16
    llp_weight: float = 1.0
    decoding: Decoding = "distribution"
    reconstruct_x: bool = True
    reconstruct_y: bool = True
    use_proportions: bool = True
    estimate: bool = True
    hold_out_validation: bool = False
    hops_: tuple[int, int] = field(init=False, repr=False, compare=False)

    @property
    def hops(self) -> tuple[int, int]:
        """K_x and K_y: those that are given, and those that a fit chose."""
        if self.feature_hops is not None and self.label_hops is not None:
            return self.feature_hops, self.label_hops
        return self.hops_

    @classmethod
    def start_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY, **limits: Any
    ) -> Iterator[PendingFit[Self]]:
        """Choose hops that are not given; then start the fits batch by batch, see `GNNMethod`."""
        tried = [
            (task, FitTask(method=copy, perturbed=task.perturbed, split=task.split))
            for task in tasks
            for copy in task.method.tried()
        ]
        # Processes that share a graph hold parts of different sizes, and would plan different batches.
        shared = any(not _is_whole(task) for task in tasks)
        for batch in [[trial] for _, trial in tried] if shared else [[trial for _, trial in tried]]:
            for pending in super().start_together(batch, memory=memory, **limits):
                pending.result()
        for task in tasks:
            trials = [trial.method for chosen, trial in tried if chosen is task]
            if trials:
                task.method.hops_ = max(trials, key=lambda method: max(method.curve_.validation_score)).hops
        yield from super().start_together(tasks, memory=memory, **limits)

    def tried(self) -> list[Self]:
        """Return the networks that choose hops, with few hops first; none if hops are given."""
        if self.feature_hops is not None and self.label_hops is not None:
            return []
        pairs = {
            (x if self.feature_hops is None else self.feature_hops, y if self.label_hops is None else self.label_hops)
            for x, y in _TRIED_HOPS
        }
        short = self.get_params() | {"epochs": min(self.epochs, _TRIAL_EPOCHS), "hold_out_validation": True}
        return [type(self)(**short | {"feature_hops": x, "label_hops": y}) for x, y in sorted(pairs)]

    def fitted_state(self) -> FittedState:
        """Return the state of the network, and the hops that were chosen."""
        state = super().fitted_state()
        return replace(state, values=state.values | {"hops": list(self.hops)})

    def restore(self, state: FittedState) -> None:
        """Set what `fitted_state` returned."""
        values = dict(state.values)
        FittedState(values={"hops": values.pop("hops", None)}).check({"hops": list[int]})
        super().restore(replace(state, values=values))
        if len(hops := state.values["hops"]) != 2 or min(hops) < 0:
            raise FitError(f"its hops are {hops}: they are two numbers, of features and of labels")
        self.hops_ = hops[0], hops[1]

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the reconstructed features (Algorithm 1), or the one-hot reports, [nodes, columns]."""
        if not self.reconstruct_x:
            return one_hot_features(perturbed, operators.device, operators.communicator)
        features = reconstruct_features(perturbed, self.hops[0], mean=operators.mean, estimate=self.estimate)
        return features.inputs(self.decoding)

    def input_settings(self) -> Hashable:
        """Return the settings of Algorithm 1."""
        return self.reconstruct_x and (self.hops[0], self.decoding, self.estimate)

    def loss_settings(self) -> Hashable:
        """Return whether the loss has a proportion term."""
        return self.use_proportions

    def bag_counts(self) -> tuple[int, ...]:
        """Return C, or nothing if no bags are used."""
        return (self.num_clusters,) if self.use_proportions else ()

    @classmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return the cross-entropy plus the weighted proportion loss (Algorithm 3)."""
        methods = [task.method for task in tasks]
        targets = nodes.select(cls.training_targets(tasks, operators))
        communicator = operators.communicator
        if not methods[0].use_proportions:
            return lambda logits: communicator.all_reduce_sum(cross_entropy(logits.log_softmax(dim=1), targets))
        divergence = ProportionLoss(cls.bags(tasks, operators), nodes, communicator)
        weights = torch.tensor([method.llp_weight for method in methods], device=operators.device)

        def loss(logits: Tensor) -> Tensor:
            log_probabilities = logits.log_softmax(dim=1)
            entropy = communicator.all_reduce_sum(cross_entropy(log_probabilities, targets))
            return entropy + weights * divergence(log_probabilities.exp())

        return loss

    @classmethod
    def training_targets(cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators) -> Tensor:
        """Return reconstructed or reported labels [tasks, classes, nodes], weighted for a mean over training nodes."""
        reports = [_label_reports(task) for task in tasks]
        nodes = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        targets = torch.empty(len(tasks), reports[0].schema.num_classes, nodes.shape[1], device=operators.device)
        by_settings: dict[tuple[int, bool] | None, list[int]] = {}
        for index, task in enumerate(tasks):
            settings = (task.method.hops[1], task.method.estimate) if task.method.reconstruct_y else None
            by_settings.setdefault(settings, []).append(index)
        for settings, indices in by_settings.items():
            same_settings, rows = [reports[index] for index in indices], torch.tensor(indices, device=operators.device)
            if settings is None:
                targets[rows] = reported_targets(same_settings, nodes[rows], operators.communicator)
            else:
                hops, estimate = settings
                labels = decode_label_draws(same_settings, hops, mean=operators.mean, estimate=estimate)
                targets[rows] = weighted_targets(labels, nodes[rows], targets.shape[1], operators.communicator)
        return targets

    @classmethod
    def bags(cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators) -> Bags:
        """Return the bags of all tasks, with estimated label proportions."""
        return bags_of_draws(
            [task.perturbed for task in tasks],
            [operators.decompositions.clusters(task.method.num_clusters) for task in tasks],
            [task.split.train for task in tasks],
            estimate=[task.method.estimate for task in tasks],
            device=operators.device,
            communicator=operators.communicator,
        )


def _label_reports(task: FitTask[RGNN]) -> PerturbedGraph:
    """Return the reports that Algorithm 2 uses; if validation nodes are held out, without their reports."""
    if not task.method.hold_out_validation:
        return task.perturbed
    return replace(task.perturbed, has_label=task.perturbed.has_label & ~task.split.validation)


def _is_whole(task: FitTask[RGNN]) -> bool:
    """Tell whether this process holds the whole graph."""
    return operators_of(task.perturbed.graph, resolve_device(task.method.device)).communicator.is_local
