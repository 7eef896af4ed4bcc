"""Belief propagation of a stochastic block model: a learned attraction, and the external field of the non-edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.models.veil.belief_propagation import BeliefPropagation
from veilgraph.models.veil.calibration import softmax
from veilgraph.models.veil.class_affinity import ClassAffinity
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.threads import map_in_threads

_START = 0.5
_LEAST, _MOST = 1e-3, 0.95
"""Bounds of the attraction. At 0 edges say nothing and nothing can be learned; at 1 they allow no exception."""

_SWEEPS = (4, 24)
"""Least and greatest number of sweeps. Near the threshold at which classes can be found at all it takes all of them."""

_WORK = 45_000_000
"""Entries of messages to compute: half a second of one core. On larger graphs, reports are found within fewer steps."""

_DAMPING = 0.1
_TOLERANCE = 0.01

_BLOCK_ENTRIES = 2**22
"""Entries of messages of one direction that are computed at once, where that takes temporary arrays."""

_BLOCK_NODES = 2**16
"""Nodes whose posteriors are summed at once in 64 bits."""

_UNEQUAL = 2.0
"""Ratio of the largest class to the smallest, as expected, from which on sizes tell classes apart."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockModel:
    r"""A stochastic block model with given degrees (Karrer and Newman 2011).

    The number of edges between nodes u and v of classes x and z has mean

    .. math:: \frac{w_u w_v}{\sum_i w_i} \left( 1 + t (K_{xz} - 1) \right)

    With w the degrees, this explains hubs. With w the mean degree of all nodes it is the simple block model. Belief
    propagation for it is asymptotically optimal on its graphs (Decelle, Krzakala, Moore, Zdeborova 2011). Messages are
    those of `BeliefPropagation` with strength t. In addition, the absence of edges is evidence. It acts as a field,
    equal for all nodes of one weight:

    .. math:: f_u(x) = -w_u \left( 1 + t \left( \sum_z K_{xz} D_z - 1 \right) \right),
        \qquad D_z = \frac{\sum_v w_v b_v(z)}{\sum_v w_v}

    Without the field one class takes over the graph. To first order, the field cancels what all messages together
    say about the frequency of a class. For that it must follow the same beliefs as the messages, with the same damping.

    Args:
        graph: The public graph.
        prior: pi, [classes].
        weights: w, [nodes].
        attraction: t, in 0..1.
        affinity: K [classes, classes]. None means K = diag(1 / pi): an edge copies the class with probability t and
            draws it from pi otherwise.
    """

    graph: Graph
    prior: Tensor
    weights: Tensor
    attraction: float = _START
    affinity: Tensor | None = None

    @property
    def messages(self) -> BeliefPropagation:
        """Belief propagation along the edges alone."""
        strengths = self.prior.new_tensor([self.attraction])
        return BeliefPropagation(graph=self.graph, prior=self.prior, edge_strengths=strengths, affinity=self.affinity)

    def log_posterior(
        self,
        evidence: Tensor,
        *,
        max_sweeps: int | None = None,
        damping: float = _DAMPING,
        tolerance: float = _TOLERANCE,
    ) -> Tensor:
        r"""Return log-beliefs [nodes, K + 1, classes] after the sweep in which the messages converge.

        If all classes are of equal size and attract themselves equally, the graph says nothing about their names. The
        posterior has a maximum for every permutation of them, and messages end in one of these, by chance where reports
        are weak. So where no class is expected to be twice as large as another, classes are renamed once. Then messages
        converge again. The new names are the permutation s of greatest

        .. math:: \sum_v \sum_x b_v(x) \ln P(y'_v | s(x))

        This is an assignment problem (Kuhn 1955).

        Args:
            evidence: Log-likelihood of each node's own report, [nodes, K + 1, classes].
            max_sweeps: Number of sweeps after which to stop in any case; None chooses it by the number of messages.
            damping: Weight of the previous message, and of the previous field.
            tolerance: Mean change of a node's posterior (total variation) below which messages have converged.
        """
        sweeps = max_sweeps or self.affordable_sweeps(evidence[0].numel())
        state = self._iterate(evidence, sweeps, damping, tolerance)
        if self._exchangeable and (names := self._best_names(state.beliefs, evidence)) is not None:
            state = self._iterate(evidence, sweeps, damping, tolerance, start=state.renamed(names, evidence))
        return state.beliefs + self.prior.log()

    def learned(self, evidence: Tensor) -> BlockModel:
        r"""Return the model with the attraction that expectation maximisation finds, one step in each sweep.

        An edge copies a class with probability t. Given the beliefs of both ends without this edge, the posterior
        probability that it did is

        .. math:: \frac{t (1 + z)}{1 + t z},
            \qquad 1 + z = \sum_x \frac{b_{u \setminus v}(x)\, b_{v \setminus u}(x)}{\pi_x}

        The next t is the mean of this over the edges. At the maximum of the likelihood it does not move.
        """
        sweeps = self.affordable_sweeps(2 * evidence[0].numel())
        return self._iterate(evidence, sweeps, _DAMPING, _TOLERANCE, learning=True).model

    def affordable_sweeps(self, columns: int) -> int:
        """Return the number of sweeps that compute about `_WORK` entries of messages, within `_SWEEPS`.

        Args:
            columns: Numbers in a message: training sets times classes.
        """
        return min(max(_WORK // (2 * self._operators.num_edges * columns), _SWEEPS[0]), _SWEEPS[1])

    @property
    def _operators(self) -> GraphOperators:
        return operators_of(self.graph, self.prior.device)

    @property
    def _exchangeable(self) -> bool:
        """Whether the graph can hardly tell classes apart: equal attraction, and about equal sizes."""
        return self.affinity is None and float(self.prior.max()) < _UNEQUAL * float(self.prior.min())

    def _iterate(
        self,
        evidence: Tensor,
        max_sweeps: int,
        damping: float,
        tolerance: float,
        *,
        start: _State | None = None,
        learning: bool = False,
    ) -> _State:
        """Return the state in which messages converge, from `start` or from no messages."""
        model, log_prior, shares, communicator = self, self.prior.log(), None, self._operators.communicator
        messages = self.messages.no_messages(evidence) if start is None else start.messages
        beliefs = evidence if start is None else start.beliefs
        posterior = softmax(beliefs + log_prior)
        for sweep in tracked(range(max_sweeps), "Veil, block model, sweeps"):
            found = self._weighted_shares(posterior)
            shares = found if shares is None else torch.lerp(found, shares, damping)
            nothing_known = start is None and sweep == 0
            arrived = model.messages.sweep(messages, beliefs, damping=0.0 if nothing_known else damping)
            beliefs = evidence + arrived + model._field(shares)
            before, posterior = posterior, softmax(beliefs + log_prior)
            if learning:
                model = replace(model, attraction=model._maximise(messages))
            change = communicator.all_reduce_sum((posterior - before).abs().sum())
            if float(change) < 2 * tolerance * self._operators.num_joined * evidence.shape[1]:
                break
        return _State(model=model, messages=messages, beliefs=beliefs)

    def _best_names(self, beliefs: Tensor, evidence: Tensor) -> Tensor | None:
        """Return, for each class, the class that should have its name, [K + 1, classes]; None if all keep theirs."""
        posterior = softmax(beliefs + self.prior.log())
        scores = torch.einsum("vkx,vkz->kzx", posterior.double(), evidence.double())
        scores = self._operators.communicator.all_reduce_sum(scores)
        names = np.stack([_assignment(each) for each in scores.cpu().numpy()])
        return None if (names == np.arange(names.shape[1])).all() else torch.from_numpy(names).to(beliefs.device)

    def _weighted_shares(self, posterior: Tensor) -> Tensor:
        """Return D, the shares of classes weighted by w, [K + 1, classes]."""
        communicator = self._operators.communicator
        total, rows = communicator.all_reduce_sum, posterior.flatten(1)
        if communicator.counted_nodes is None:
            return total(self.weights @ rows).view(posterior.shape[1:]) / total(self.weights.sum())
        # A field of hubs amplifies what the number of processes changes in the sums: they need 64 bits.
        blocks = zip(torch.split(self.weights.double(), _BLOCK_NODES), torch.split(rows, _BLOCK_NODES), strict=True)
        here = torch.stack([weights @ some.double() for weights, some in blocks]).sum(0)
        return (total(here) / total(self.weights.double().sum())).view(posterior.shape[1:]).to(posterior)

    def _field(self, shares: Tensor) -> Tensor:
        """Return the field f up to a constant for each node, [nodes, K + 1, classes]."""
        ratios = shares / self.prior if self.affinity is None else shares @ self.affinity.T
        return self.weights.view(-1, 1, 1) * (self.attraction * (1 - ratios))

    def _maximise(self, messages: Tensor) -> float:
        """Return the next attraction. A message says b / pi = 1 + (e^m - 1) / t, so it has what the equation needs."""
        operators, step = self._operators, _block_edges(messages)
        counted = operators.counted_edges

        def copied(start: int) -> float:
            block = messages[:, start : start + step]
            ratios = block.reshape(2, block.shape[1], -1, len(self.prior)).expm1()
            excess = (ratios[0] * ratios[1]) @ self.prior / self.attraction  # t z
            shares = (self.attraction + excess) / (1 + excess).clamp(min=_LEAST)
            shares = shares if counted is None else shares[counted[start : start + step]]
            return float(shares.sum(dtype=torch.float64))

        starts = range(0, messages.shape[1], step)
        here = sum(map_in_threads(copied, starts, "Veil, block model, edges that copy a class"))
        total = float(operators.communicator.all_reduce_sum(self.prior.new_tensor(here, dtype=torch.float64)))
        return min(max(total * len(self.prior) / (operators.num_edges * messages.shape[2]), _LEAST), _MOST)


def _block_edges(messages: Tensor) -> int:
    """Return the number of edges whose messages are computed at once, where that takes temporary arrays."""
    return max(1, _BLOCK_ENTRIES // messages.shape[2])


def _assignment(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column of each row, each column once, that have the greatest sum of scores.

    >>> _assignment(np.array([[1.0, 9.0], [8.0, 9.0]])).tolist()
    [1, 0]
    """
    # Slow to import, and needed here only. scipy.sparse.csgraph has the same, and may run for ever on equal scores.
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(scores, maximize=True)[1], dtype=np.int64)


class _State(NamedTuple):
    """A model, its messages [2, edges, (K + 1) classes] and log-beliefs relative to the prior."""

    model: BlockModel
    messages: Tensor
    beliefs: Tensor

    def renamed(self, names: Tensor, evidence: Tensor) -> _State:
        """Return the state in which the class names[k, x] of training set k has the name x; reports stay.

        Messages are renamed in place: they are by far the largest array.
        """
        sets, classes = names.shape
        columns = (torch.arange(sets, device=names.device).unsqueeze(1) * classes + names).flatten()
        from_others = (self.beliefs - evidence).flatten(1)[:, columns].view_as(evidence)
        for block in torch.split(self.messages, _block_edges(self.messages), dim=1):
            block.copy_(block[:, :, columns])
        return _State(model=self.model, messages=self.messages, beliefs=evidence + from_others)


def block_model_log_posterior(labels: CrossFitting, affinity: ClassAffinity | None) -> Tensor:
    """Return log-beliefs [nodes, K + 1 or 1, classes] of the block model with the graph's degrees.

    Where every class attracts itself equally, as far as reports show, one number is learned, the attraction.
    Otherwise the estimated affinity is used.

    Both are from all reports, so they have seen those that a training set leaves out. The attraction has one value for
    all classes and nodes: it tells how much neighbours are alike, but not who belongs to which class. One report of n
    moves it, or a share of the affinity, by an order of 1 / n.

    Args:
        labels: Label reports in folds.
        affinity: Affinity estimated from the reports at both ends of edges; None if there are no such edges.
    """
    graph = labels.perturbed.graph
    weights = torch.from_numpy(graph.degrees).to(labels.reports.prior)
    if affinity is None or affinity.uniformly_assortative:
        last = labels.evidence_of(slice(labels.num_folds, None))
        model = BlockModel(graph=graph, prior=labels.reports.prior, weights=weights).learned(last)
    else:
        ends, matrix = affinity.end_shares.to(labels.reports.prior), affinity.matrix.to(labels.reports.prior)
        model = BlockModel(graph=graph, prior=ends, weights=weights, attraction=1.0, affinity=matrix)
    sweeps = model.affordable_sweeps((labels.num_folds + 1) * labels.reports.num_classes)
    (beliefs,) = labels.by_sets(lambda sets: [model.log_posterior(labels.evidence_of(sets), max_sweeps=sweeps)])
    return beliefs
