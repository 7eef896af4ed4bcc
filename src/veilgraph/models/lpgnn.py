"""LPGNN: multi-bit features, K-hop aggregation, label denoising and forward correction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.graph import GraphSize
from veilgraph.models.base import FitTask, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import weighted_targets
from veilgraph.models.engine.output_layer import NodeSubset, OutputLayer, needed_nodes, permuted, transposed
from veilgraph.models.parameters import Range
from veilgraph.privacy.mechanisms import Mechanism, MultiBit
from veilgraph.reconstruct.labels import named_class_draws
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.propagation import default_hops


class ReadsMultiBit:
    """A method that needs its features by the multi-bit mechanism."""

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Return that the method needs multi-bit reports, unless the features are collected by multi-bit."""
        return None if _multi_bit(features) else "multi-bit feature reports"

    @classmethod
    def multi_bit_mechanism(cls, perturbed: PerturbedGraph) -> MultiBit:
        """Return the mechanism of the feature reports; raise FitError if it is another one."""
        mechanism = perturbed.feature_mechanism
        if (multi_bit := _multi_bit(mechanism)) is None:
            raise FitError(f"{cls.__name__} needs multi-bit reports, not those of {type(mechanism).__name__}")
        return multi_bit


def _multi_bit(features: Mechanism | None) -> MultiBit | None:
    """Return the mechanism of features if its reports are the bits that the method is defined for."""
    return features if isinstance(features, MultiBit) else None


_FLOOR = 1e-12


@dataclass(kw_only=True)
class LPGNN(ReadsMultiBit, GNNMethod):
    r"""Sajadmanesh and Gatica-Perez, "Locally Private Graph Neural Networks", CCS 2021.

    Features are the unbiased values of multi-bit reports, aggregated over K_x hops of
    :math:`S = D^{-1/2} A D^{-1/2}` (KProp). Labels are denoised by K_y hops and an argmax. Predictions are passed
    through the label channel P (forward correction) and the same K_y hops before they are compared:

    .. math:: \mathcal L = - \frac{1}{|V_{train}|} \sum_v \ln [S^{K_y} \hat Y P]_{v, \tilde y_v},
        \qquad \tilde y_v = \arg\max [S^{K_y} Y']_v

    A training node that no label report reaches in K_y hops has no denoised label and no term in the loss.

    Args:
        feature_hops: K_x.
        label_hops: K_y.
        forward_correction: pass predictions through the label channel.
    """

    name: ClassVar[str] = "lpgnn"
    uses_public: ClassVar[bool] = True
    loss_needs_all_nodes: ClassVar[bool] = True
    ranges: ClassVar[dict[str, Range]] = GNNMethod.ranges | {"feature_hops": Range(0), "label_hops": Range(0)}

    feature_hops: int = 16
    label_hops: int = 8
    forward_correction: bool = True

    @classmethod
    def defaults_on(cls, graph: GraphSize) -> dict[str, Any]:
        """Return the hops after which a neighbourhood would cover the graph; features take twice as many."""
        hops = default_hops(graph)
        return {"feature_hops": 2 * hops, "label_hops": hops}

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the estimated values after K_x hops, [nodes, features]."""
        mechanism = self.multi_bit_mechanism(perturbed)
        reports = torch.from_numpy(perturbed.features).to(operators.device, torch.float32)
        values = multi_bit_values(reports, mechanism)
        values[~torch.from_numpy(perturbed.has_features).to(operators.device)] = 0
        return operators.symmetric(values, self.feature_hops)

    def input_settings(self) -> Hashable:
        """Return K_x."""
        return self.feature_hops

    @classmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return the cross-entropy of denoised labels after forward correction and K_y hops."""
        methods = [task.method for task in tasks]
        training = needed_nodes(training_nodes(tasks), operators)
        propagation = _PropagationByHops([method.label_hops for method in methods], operators, training)
        order = propagation.order
        targets = training.select(cls._targets(tasks, operators)).index_select(0, order)
        hits, weights = (targets > 0).to(targets.dtype), targets.sum(dim=1)
        channels = [task.perturbed.label_mechanism.channel for task in tasks]
        corrected = [method.forward_correction for method in methods]
        gain, other = (
            torch.tensor(values, device=operators.device).index_select(0, order).unsqueeze(1)
            for values in (
                [float(channel.gain) if use else 1.0 for channel, use in zip(channels, corrected, strict=True)],
                [float(channel.other) if use else 0.0 for channel, use in zip(channels, corrected, strict=True)],
            )
        )
        # Channel and hops are linear: S^K (g Y + q) = g S^K Y + q S^K 1, and the last term is constant.
        ones = torch.ones(len(tasks), 1, operators.graph.num_nodes, device=operators.device)
        constant = other * propagation(ones)[:, 0]

        def loss(logits: Tensor) -> Tensor:
            predicted = (propagation(logits.softmax(dim=1)) * hits).sum(dim=1)
            observed = torch.addcmul(constant, predicted, gain).clamp(min=_FLOOR)
            losses = operators.communicator.all_reduce_sum(-(observed.log() * weights).sum(dim=1))
            return losses.index_select(0, propagation.inverse)

        return loss

    @classmethod
    def _targets(cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators) -> Tensor:
        """Return the denoised labels [tasks, classes, nodes], weighted for a mean over training nodes."""
        nodes = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        labels = torch.zeros(nodes.shape, dtype=torch.int64, device=operators.device)
        for hops in {task.method.label_hops for task in tasks}:
            same_hops = [index for index, task in enumerate(tasks) if task.method.label_hops == hops]
            rows = torch.tensor(same_hops, device=operators.device)
            reports = named_class_draws([tasks[index].perturbed for index in same_hops], operators.device)
            propagated = operators.symmetric(reports.flatten(1), hops).view_as(reports).transpose(0, 1)
            labels[rows] = propagated.argmax(dim=2)
            nodes[rows] &= propagated.sum(dim=2) > 0
        reached = operators.communicator.all_reduce_sum(nodes.sum(dim=1)).tolist()
        for task, count in zip(tasks, reached, strict=True):
            if not count:
                hops = task.method.label_hops
                raise FitError(f"no label report is {hops} hops from a training node: choose other label_hops")
        return weighted_targets(labels, nodes, tasks[0].perturbed.schema.num_classes, operators.communicator)


class _PropagationByHops:
    """Propagation of class columns, with a number of hops of its own for each replica.

    All replicas share sparse products as long as they have hops left. The last hop computes the selected nodes alone.

    Args:
        hops: number of hops of each replica.
        operators: matrices of the graph.
        nodes: the nodes of the result.

    Attributes:
        order: replica indices, sorted by hops, so that replicas with equal hops are neighbours.
        inverse: position of each replica in `order`.
    """

    def __init__(self, hops: Sequence[int], operators: GraphOperators, nodes: NodeSubset) -> None:
        self._product, self._nodes = operators.symmetric, nodes
        self._last_hop, self._replicas_by_hops = OutputLayer(operators.symmetric, nodes), sorted(Counter(hops).items())
        self.order = torch.tensor(sorted(range(len(hops)), key=lambda replica: hops[replica]), device=operators.device)
        self.inverse = self.order.argsort()

    def __call__(self, values: Tensor) -> Tensor:
        """Propagate [replicas, classes, nodes] and return the values of the selected nodes, replicas in `order`."""
        classes, done, results = values.shape[1], 0, list[Tensor]()
        columns = transposed(permuted(values, self.order, self.inverse).flatten(0, 1))
        for hops, replicas in self._replicas_by_hops:
            before_last = max(hops - 1, 0)
            columns, done = self._product(columns, before_last - done), before_last
            finished, columns = columns.tensor_split([replicas * classes], dim=1)
            results.append(self._last_hop(finished) if hops else self._nodes.select(transposed(finished)))
        selected = torch.cat(results)
        return selected.view(-1, classes, selected.shape[1])


def multi_bit_values(reports: Tensor, mechanism: MultiBit) -> Tensor:
    r"""Estimate values without bias from multi-bit reports, entry by entry.

    .. math:: \tilde x = \frac{d}{m} \cdot \frac{upper - lower}{2\,(2p - 1)}\, x' + \frac{lower + upper}{2}

    Args:
        reports: -1, 0 or 1, [nodes, features].
        mechanism: the mechanism that made the reports.
    """
    lower, upper = (reports.new_tensor(ends, dtype=torch.float32) for ends in (mechanism.lower, mechanism.upper))
    gain = float(mechanism.answering_rate * mechanism.channel(0).gain)
    return reports * (upper - lower) / (2 * gain) + (lower + upper) / 2
