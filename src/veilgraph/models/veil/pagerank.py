"""Class shares around each node by personalised PageRank, with the effective sample size of each share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph.canonical_order import canonical_order
from veilgraph.graph.clustering import MAX_METIS_EDGES
from veilgraph.graph.counters import counter_words
from veilgraph.models.veil.calibration import Parameters, ParameterTensors, by_class, log_softmax
from veilgraph.models.veil.cross_fitting import CrossFitting, SetGroup
from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import block_width, sparse_product

Range = tuple[float, int]
"""Restart probability and number of steps: how far reports spread."""

RANGES: tuple[Range, ...] = (
    (0.5, 4),
    (0.3, 16),
    (0.1, 16),
    (0.03, 32),
    (0.01, 2),
    (0.01, 4),
    (0.01, 32),
    (0.003, 64),
)
"""Ranges of the views, from the nearest neighbours to whole regions."""

SHARPNESS = tuple(np.geomspace(1 / 16, 4, 13).tolist())
CAUTION = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)
_EXPECTED_SHARPNESS = 0.5
_PROBES = 16
_TINY = 1e-12
_SIGN_STREAM = 8002


@dataclass(frozen=True, kw_only=True, eq=False)
class PageRankView:
    """Class shares that one range of personalised PageRank gives around each node.

    Calibration has two parameters: the sharpness in units of the number of classes, and the caution in units of
    `reports_needed`.

    Attributes:
        excess: Debiased class shares less those of the whole graph, [nodes, K + 1, classes].
        effective_sizes: Effective sample size of each share, in equally weighted reports, [nodes, K + 1].
        reports_needed: Number of reports at which the noise of a share is as large as a share of 1 / classes.
    """

    excess: Tensor
    effective_sizes: Tensor
    reports_needed: float

    def candidates(self) -> Sequence[Parameters]:
        """Return every pair of a sharpness and a caution."""
        return list(itertools.product(SHARPNESS, CAUTION))

    def negative_log_prior(self, parameters: Parameters) -> float:
        """Return half the squared log-distance to the expected sharpness and caution."""
        sharpness, caution = parameters
        return (math.log(sharpness / _EXPECTED_SHARPNESS) ** 2 + math.log(caution) ** 2) / 2

    def out_of_fold(self, labels: CrossFitting) -> PageRankView:
        """Return the out-of-fold shares of the reporting nodes, [reports, 1, classes]."""
        excess, sizes = (labels.out_of_fold(part).unsqueeze(1) for part in (self.excess, self.effective_sizes))
        return replace(self, excess=by_class(excess), effective_sizes=sizes)

    def log_probabilities(self, prior: Tensor, parameters: Parameters | ParameterTensors) -> Tensor:
        r"""Return class log-probabilities, nearer to the prior where the effective sample size is small.

        .. math:: z_v = \ln \pi + \tau \frac{N_v}{N_v + \kappa} (\tilde\pi_v - \tilde\pi)
        """
        sharpness, caution = parameters
        sizes = self.effective_sizes.unsqueeze(2)
        trust = sizes / (sizes + caution * self.reports_needed)
        return log_softmax(prior.log() + (sharpness * prior.shape[-1] * trust) * self.excess)


def pagerank_views(labels: CrossFitting, operators: GraphOperators, *, seed: int) -> dict[Range, PageRankView]:
    r"""Propagate label reports, :math:`Z \leftarrow (1 - a) S Z + a Y'`, and debias the row-normalised result.

    The effective sample size leaves a node's own report out:
    :math:`N_v = (\sum_u w_{vu})^2 / (\ell \sum_{u \ne v} w_{vu}^2)`, with w the PageRank weights and l the share of
    nodes that report, among those with neighbours. Hutchinson's estimator with random signs z gives the sums of
    squares, from
    :math:`E[(Wz)_v^2] = \sum_u w_{vu}^2` and :math:`E[z_v (Wz)_v] = w_{vv}`.

    Args:
        labels: Label reports in folds.
        operators: Matrices of the graph.
        seed: Seed of the random signs.
    """
    squares, matrix, communicator = squared_weights(operators, seed), operators.symmetric.matrix, operators.communicator
    classes, nodes = labels.reports.num_classes, matrix.shape[0]
    # The plan limits messages. Columns of all training sets take less than the random signs did.
    width = block_width(labels.device, communicator.max_extended_rows(nodes))
    groups = labels.set_groups(max(1, width // classes))
    found: list[dict[Range, Tensor]] = []
    reporting = []
    for group in groups:
        sources = labels.weighted_reports_of(group.sets)
        joined = (labels.reports.degrees > 0).view(-1, 1, 1)
        reports = communicator.all_reduce_sum((sources.square() * joined).sum(dim=(0, 2)))
        shares = reports / (labels.reports.set_size * operators.num_joined)
        reporting.append(group.kept(shares.expand(nodes, -1)))
        kept = partial(_kept, group, sources.shape)
        found.append(
            personalised_pagerank(
                matrix,
                sources.flatten(1),
                squares,
                read=kept,
                max_columns=sources[0].numel(),
                communicator=communicator,
            )
        )
    needed = (
        labels.reports.num_classes
        * labels.reports.other
        * (1 - labels.reports.other)
        / (labels.reports.keep - labels.reports.other) ** 2
        + 1
    )
    shares = labels.join(groups, reporting).clamp(min=_TINY)
    views: dict[Range, PageRankView] = {}
    for key in squares:
        scores = labels.join(groups, [part.pop(key) for part in found])
        mass = scores.sum(2) / labels.reports.set_size
        sizes = mass.square() / (shares * squares[key].unsqueeze(1))
        views[key] = PageRankView(excess=_excess(scores, mass, labels), effective_sizes=sizes, reports_needed=needed)
    return views


def _kept(group: SetGroup, shape: torch.Size, columns: Tensor) -> Tensor:
    """Return what a group keeps of columns [nodes, sets classes]."""
    return group.kept(columns.view(shape))


@lru_cache(maxsize=4)
def squared_weights(operators: GraphOperators, seed: int) -> dict[Range, Tensor]:
    """Estimate the sum of w_vu^2 over u other than v [nodes] for each range.

    Fits on one graph with one seed share the result.
    """
    signs = _random_signs(_component_counters(operators), seed).to(operators.device)
    matrix, communicator = operators.symmetric.matrix, operators.communicator
    found = personalised_pagerank(matrix, signs, RANGES, communicator=communicator)
    return {key: _sum_of_squares(found.pop(key), signs) for key in RANGES}


def _component_counters(operators: GraphOperators) -> NDArray[np.int64]:
    """Return numbers for draws that need to differ within a component alone, [nodes].

    They are places in the `canonical_order`, so that copies of a component draw alike, or `counters` on a graph that
    is too large or spread over processes.
    """
    if operators.communicator.counted_nodes is not None or operators.num_edges > MAX_METIS_EDGES:
        return operators.counters
    order, places = canonical_order(operators.graph), np.zeros(operators.num_nodes, dtype=np.int64)
    places[order.nodes] = order.places
    return places


def _random_signs(counters: NDArray[np.int64], seed: int) -> Tensor:
    """Return random signs that follow from the counters of the nodes, [nodes, probes]: bits of a counter's word."""
    bits = torch.from_numpy(counter_words(counters, seed=seed, stream=_SIGN_STREAM).view(np.int64))
    signs = torch.empty(len(bits), _PROBES)
    for probe in range(_PROBES):
        signs[:, probe] = (bits >> probe).bitwise_and_(1)
    return signs.mul_(2).sub_(1)


def _sum_of_squares(probes: Tensor, signs: Tensor) -> Tensor:
    """Return Hutchinson's estimate for each node, from W z of all signs z, [nodes]."""
    return (probes.square().mean(1) - (probes * signs).mean(1).square()).clamp(min=_TINY)


def personalised_pagerank(
    matrix: Tensor,
    columns: Tensor,
    ranges: Iterable[Range],
    *,
    read: Callable[[Tensor], Tensor] = lambda power: power,
    max_columns: int | None = None,
    communicator: Communicator = LOCAL,
) -> dict[Range, Tensor]:
    r"""Apply K steps of :math:`Z \leftarrow (1 - a) S Z + a Y` to columns Y [nodes, columns], for every range (a, K).

    .. math:: Z = a \sum_{k < K} (1 - a)^k S^k Y + (1 - a)^K S^K Y

    All ranges share the powers :math:`S^k Y`: the number of sparse products is the number of steps of the longest.

    Args:
        matrix: S, sparse [nodes, nodes].
        columns: Y, [nodes, columns].
        ranges: The ranges.
        read: Linear function of the powers whose sums are wanted; it takes all columns of a block.
        max_columns: Number of columns in a block; default: `block_width`.
        communicator: Collective operations over the processes that share the graph.
    """
    keys = list(ranges)
    results: dict[Range, list[Tensor]] = {key: [] for key in keys}
    width = max_columns or block_width(columns.device, communicator.max_extended_rows(len(columns)))
    for block in torch.split(columns, width, dim=1):
        power, sums = block.contiguous(), dict[Range, Tensor]()
        for step in tracked(range(max(steps for _, steps in keys) + 1), "Veil, PageRank, steps"):
            power = sparse_product(matrix, power, communicator) if step else power
            wanted = read(power)
            for restart, steps in keys:
                if step == 0:
                    sums[restart, steps] = torch.zeros_like(wanted)
                if step <= steps:
                    factor = (1 - restart) ** step * (restart if step < steps else 1.0)
                    sums[restart, steps].add_(wanted, alpha=factor)
        for key, total in sums.items():
            results[key].append(total)
    return {key: parts[0] if len(parts) == 1 else torch.cat(parts, dim=1) for key, parts in results.items()}


def _excess(scores: Tensor, mass: Tensor, labels: CrossFitting) -> Tensor:
    shares = scores / mass.clamp(min=_TINY).unsqueeze(2)
    excess = (shares - labels.reports.report_shares) / (labels.reports.keep - labels.reports.other)
    return torch.where(mass.unsqueeze(2) > _TINY, excess, 0.0)
