"""LPGNN: multi-bit features, K-hop aggregation, label denoising and forward correction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.base import FitTask, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import weighted_targets
from veilgraph.models.engine.node_subset import Asked, asked_by
from veilgraph.models.engine.output_layer import Readout, across, reordered
from veilgraph.privacy.mechanisms import MultiBit
from veilgraph.reconstruct.labels import stacked_one_hot
from veilgraph.reconstruct.operators import GraphOperators

_FLOOR = 1e-12


@dataclass(kw_only=True)
class LPGNN(GNNMethod):
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
    _loss_of_all_nodes: ClassVar[bool] = True

    feature_hops: int = 16
    label_hops: int = 8
    forward_correction: bool = True

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        mechanism = perturbed.feature_mechanism
        if not isinstance(mechanism, MultiBit):
            raise FitError(f"LPGNN needs multi-bit reports, not those of {type(mechanism).__name__}")
        reports = torch.from_numpy(perturbed.features).to(operators.device, torch.float32)
        values = multi_bit_values(reports, mechanism)
        values[~torch.from_numpy(perturbed.has_features).to(operators.device)] = 0
        return operators.symmetric(values, self.feature_hops)

    def _input_settings(self) -> Hashable:
        return self.feature_hops

    @classmethod
    def _loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, asked: Asked
    ) -> Callable[[Tensor], Tensor]:
        methods = [task.method for task in tasks]
        training = asked_by(training_nodes(tasks), operators)
        journeys = _Journeys([method.label_hops for method in methods], operators, training)
        targets = training.pick(cls._targets(tasks, operators)).index_select(0, journeys.order)
        hits, weights = (targets > 0).to(targets.dtype), targets.sum(dim=1)
        channels = [task.perturbed.label_mechanism.channel for task in tasks]
        corrected = [method.forward_correction for method in methods]
        gain, other = (
            torch.tensor(values, device=operators.device).index_select(0, journeys.order).unsqueeze(1)
            for values in (
                [float(channel.gain) if use else 1.0 for channel, use in zip(channels, corrected, strict=True)],
                [float(channel.other) if use else 0.0 for channel, use in zip(channels, corrected, strict=True)],
            )
        )
        # The channel and the hops are linear: S^K (g Y + q) = g S^K Y + q S^K 1, and the latter never changes.
        others = other * journeys(torch.ones(len(tasks), 1, operators.graph.num_nodes, device=operators.device))[:, 0]

        def loss(logits: Tensor) -> Tensor:
            arrived = (journeys(logits.softmax(dim=1)) * hits).sum(dim=1)
            observed = torch.addcmul(others, arrived, gain).clamp(min=_FLOOR)
            return operators.communicator.all_reduce_sum(-(observed.log() * weights).sum(dim=1)).index_select(
                0, journeys.places
            )

        return loss

    @classmethod
    def _targets(cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators) -> Tensor:
        """The denoised labels of training nodes, weighted for a mean over them."""
        nodes = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        labels = torch.zeros(nodes.shape, dtype=torch.int64, device=operators.device)
        for hops in {task.method.label_hops for task in tasks}:
            places = [place for place, task in enumerate(tasks) if task.method.label_hops == hops]
            here = torch.tensor(places, device=operators.device)
            reports = stacked_one_hot([tasks[place].perturbed for place in places], operators.device)
            propagated = operators.symmetric(reports.flatten(1), hops).view_as(reports).transpose(0, 1)
            labels[here] = propagated.argmax(dim=2)
            nodes[here] &= propagated.sum(dim=2) > 0
        for task, reached in zip(tasks, operators.communicator.all_reduce_sum(nodes.sum(dim=1)).tolist(), strict=True):
            if not reached:
                hops = task.method.label_hops
                raise FitError(f"no label report is {hops} hops from a training node: choose other label_hops")
        return weighted_targets(labels, nodes, tasks[0].perturbed.schema.num_classes, operators.communicator)


class _Journeys:
    """Class columns of many replicas, each as many hops on as it asks for.

    All go together until one stays behind; the last hop is only to the nodes that are read out.

    Args:
        hops: of each replica.
        operators: of the graph.
        asked: the nodes that are read out.

    Attributes:
        order: of the replicas, by the number of their hops; so that those who stay behind are beside each other.
        places: where each replica is in this order.
    """

    def __init__(self, hops: Sequence[int], operators: GraphOperators, asked: Asked) -> None:
        self._product, self._asked = operators.symmetric, asked
        self._readout, self._legs = Readout(operators.symmetric, asked), sorted(Counter(hops).items())
        self.order = torch.tensor(sorted(range(len(hops)), key=lambda replica: hops[replica]), device=operators.device)
        self.places = self.order.argsort()

    def __call__(self, stack: Tensor) -> Tensor:
        """From [replicas, classes, nodes] to the same at the nodes that are read out, in their order."""
        classes, done, found = stack.shape[1], 0, list[Tensor]()
        columns = across(reordered(stack, self.order, self.places).flatten(0, 1))
        for distance, replicas in self._legs:
            before = max(distance - 1, 0)
            columns, done = self._product(columns, before - done), before
            arrived, columns = columns.tensor_split([replicas * classes], dim=1)
            found.append(self._readout(arrived) if distance else self._asked.pick(across(arrived)))
        read = torch.cat(found)
        return read.view(-1, classes, read.shape[1])


def multi_bit_values(reports: Tensor, mechanism: MultiBit) -> Tensor:
    r"""Estimate values without bias from multi-bit reports, entry by entry.

    .. math:: \tilde x = \frac{d}{m} \cdot \frac{upper - lower}{2\,(2p - 1)}\, x' + \frac{lower + upper}{2}

    Args:
        reports: -1, 0 or 1, [nodes, features].
        mechanism: the mechanism that made the reports.
    """
    lower, upper = (reports.new_tensor(ends, dtype=torch.float32) for ends in (mechanism.lower, mechanism.upper))
    (true, _, other), _ = mechanism.channel()
    return reports * (upper - lower) / (2 * float(true - other)) + (lower + upper) / 2
