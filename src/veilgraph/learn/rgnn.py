"""Algorithm 3: a GNN on reconstructed features and labels, regularised by bag proportions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.learn.asked import Asked
from veilgraph.learn.gnn import GNNMethod
from veilgraph.learn.losses import ProportionLoss, cross_entropy, weighted_targets
from veilgraph.learn.method import Run
from veilgraph.reconstruct import Bags, bag_proportions, reconstruct_features, reconstruct_labels
from veilgraph.reconstruct.features import Decoding, one_hot_reports
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class RGNN(GNNMethod):
    r"""The paper's method.

    Reconstruct features (Algorithm 1) and labels (Algorithm 2), then minimise

    .. math:: \mathcal L_{gnn} + \alpha \mathcal L_{llp}

    the cross-entropy of training nodes against their reconstructed labels, and the divergence of predicted from
    estimated label proportions in METIS bags.

    Args:
        feature_hops: K_x.
        label_hops: K_y.
        num_clusters: C.
        llp_weight: alpha.
        decoding: how features with more than two values enter: "distribution" or "argmax".
        reconstruct_x: use Algorithm 1; False trains on the reports themselves (the ablation without f_X).
        reconstruct_y: use Algorithm 2; False trains on the reported labels (the ablation without f_Y).
        use_proportions: use the bags; False is the ablation without LLP.
        estimate: undo the randomization's bias; False is propagation without estimation.
        hold_out_validation: keep the validation nodes' labels out of Algorithm 2 as well as out of the loss. They then
            say something about a setting that they had no part in, which a search for settings needs; otherwise
            they take part in the propagation, as in the paper.

    >>> RGNN(feature_hops=4).label_hops
    8
    """

    name: ClassVar[str] = "rgnn"

    feature_hops: int = 16
    label_hops: int = 8
    num_clusters: int = 16
    llp_weight: float = 1.0
    decoding: Decoding = "distribution"
    reconstruct_x: bool = True
    reconstruct_y: bool = True
    use_proportions: bool = True
    estimate: bool = True
    hold_out_validation: bool = False

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        if not self.reconstruct_x:
            return one_hot_reports(perturbed, operators.device, operators.peers)
        features = reconstruct_features(perturbed, self.feature_hops, mean=operators.mean, estimate=self.estimate)
        return features.inputs(self.decoding)

    def _input_settings(self) -> Hashable:
        return self.reconstruct_x and (self.feature_hops, self.decoding, self.estimate)

    def _loss_settings(self) -> Hashable:
        return self.use_proportions

    def bag_counts(self) -> tuple[int, ...]:
        """C, unless there are no bags."""
        return (self.num_clusters,) if self.use_proportions else ()

    @classmethod
    def _loss(cls, runs: Sequence[Run], operators: GraphOperators, asked: Asked) -> Callable[[Tensor], Tensor]:
        methods: list[RGNN] = [run.method for run in runs]
        targets = asked.pick(torch.stack([run.method._targets(run, operators) for run in runs]))
        peers = operators.peers
        if not methods[0].use_proportions:
            return lambda logits: peers.total(cross_entropy(logits.log_softmax(dim=1), targets))
        divergence = ProportionLoss([run.method._bags(run, operators) for run in runs], asked, peers)
        weights = torch.tensor([method.llp_weight for method in methods], device=operators.device)

        def loss(logits: Tensor) -> Tensor:
            log_probabilities = logits.log_softmax(dim=1)
            entropy = peers.total(cross_entropy(log_probabilities, targets))
            return entropy + weights * divergence(log_probabilities.exp())

        return loss

    def _targets(self, run: Run, operators: GraphOperators) -> Tensor:
        nodes = torch.from_numpy(run.split.train & run.perturbed.has_label).to(operators.device)
        perturbed = run.perturbed
        if self.hold_out_validation:
            perturbed = replace(perturbed, has_label=perturbed.has_label & ~run.split.validation)
        labels = torch.from_numpy(perturbed.labels).to(operators.device)
        if self.reconstruct_y:
            labels = reconstruct_labels(
                perturbed, self.label_hops, mean=operators.mean, estimate=self.estimate
            ).decoded()
        return weighted_targets(labels, nodes, perturbed.schema.num_classes, operators.peers)

    def _bags(self, run: Run, operators: GraphOperators) -> Bags:
        clusters = operators.clusters(self.num_clusters)
        bags = bag_proportions(run.perturbed, clusters, run.split.train, estimate=self.estimate, peers=operators.peers)
        return bags.to(operators.device)
