"""Algorithm 3: a GNN on reconstructed features and labels, regularised by bag proportions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.gnn import GNNMethod
from veilgraph.learn.losses import proportion_loss
from veilgraph.reconstruct import bag_proportions, cluster, reconstruct_features, reconstruct_labels
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
            return one_hot_reports(perturbed, operators.device)
        features = reconstruct_features(perturbed, self.feature_hops, mean=operators.mean, estimate=self.estimate)
        return features.inputs(self.decoding)

    def _loss(self, perturbed: PerturbedGraph, split: Split, operators: GraphOperators) -> Callable[[Tensor], Tensor]:
        nodes = torch.from_numpy(split.train & perturbed.has_label).to(operators.device)
        propagated = replace(perturbed, has_label=perturbed.has_label & ~split.validation)
        targets = self._targets(propagated if self.hold_out_validation else perturbed, operators)[nodes]
        if not self.use_proportions:
            return lambda logits: cross_entropy(logits[nodes], targets)
        clusters = cluster(perturbed.graph, self.num_clusters)
        bags = bag_proportions(perturbed, clusters, split.train, estimate=self.estimate).to(operators.device)
        return lambda logits: (
            cross_entropy(logits[nodes], targets) + self.llp_weight * proportion_loss(logits.softmax(dim=1), bags)
        )

    def _targets(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        if not self.reconstruct_y:
            return torch.from_numpy(perturbed.labels).to(operators.device)
        return reconstruct_labels(perturbed, self.label_hops, mean=operators.mean, estimate=self.estimate).decoded()
