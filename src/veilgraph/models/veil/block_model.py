"""Belief propagation of stochastic block models: learned affinities, and the external field of the non-edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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
from veilgraph.models.veil.degree_columns import degree_columns
from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.threads import map_in_threads

_START = 0.5
_LEAST, _MOST = 1e-3, 0.95
"""Bounds of the attraction. At 0 edges say nothing and nothing can be learned; at 1 they allow no exception."""

_PSEUDO_EDGES, _SCALINGS = 100.0, 5
_DEGREE_PRECISION, _DEGREE_STEPS = 10.0, 10
"""Precision of the prior of the degree bias, and its steps by the reports alone."""

_LEARNING_SWEEPS, _LEARNING_EDGES = 8, 2**15
"""Least number of sweeps in which a model is learned, and about the least number of edges that each step reads."""

_SWEEPS = (4, 24)
"""Least and greatest number of sweeps. Near the threshold at which classes can be found at all it takes all of them."""

_WORK = 45_000_000
"""Entries of messages to compute: half a second of one core. On larger graphs, reports are found within fewer steps."""

_DAMPING, _TINY = 0.1, 1e-30
_TOLERANCE = 0.01

_BLOCK_ENTRIES = 2**22
"""Entries of messages of one direction that are computed at once, where that takes temporary arrays."""

_BLOCK_NODES = 2**16
"""Nodes whose posteriors are summed at once in 64 bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockModel:
    r"""A stochastic block model with given degrees, whose classes may differ in degree (Karrer and Newman 2011).

    The number of edges between nodes u and v of classes x and z has mean

    .. math:: \frac{w_u w_v}{\sum_i w_i} \left( 1 + t (K_{xz} - 1) \right)

    With w the degrees, this explains hubs. With w the mean degree of all nodes it is the simple block model. Belief
    propagation for it is asymptotically optimal on its graphs (Decelle, Krzakala, Moore, Zdeborova 2011). Given
    degrees say nothing by themselves, so what they tell about the class is the prior of a node:

    .. math:: P(x | v) \propto \pi_x \exp(\phi_v b_x), \qquad e_x = \frac{\sum_v w_v P(x | v)}{\sum_v w_v}

    with phi the node's `degree_columns`. e are the class shares of the ends of edges, and :math:`K e = 1`. Messages are
    those of `BeliefPropagation` with prior e and strength t. In addition, the absence of edges is evidence. It acts as
    a field, equal for all nodes of one weight:

    .. math:: f_u(x) = -w_u \left( 1 + t \left( \sum_z K_{xz} D_z - 1 \right) \right),
        \qquad D_z = \frac{\sum_v w_v b_v(z)}{\sum_v w_v}

    Without the field one class takes over the graph. To first order, the field cancels what all messages together
    say about the frequency of a class. For that it must follow the same beliefs as the messages, with the same damping.

    Args:
        graph: The public graph.
        prior: pi, [classes].
        weights: w, [nodes].
        attraction: t, in 0..1.
        affinity: K [classes, classes]. None means K = diag(1 / e): an edge copies the class with probability t and
            draws it from e otherwise.
        degree_bias: b [3, classes]; None if degrees say nothing about classes.
        exchangeable: Whether sizes may not tell classes apart, so that reports name them; see `log_posterior`.
    """

    graph: Graph
    prior: Tensor
    weights: Tensor
    attraction: float = _START
    affinity: Tensor | None = None
    degree_bias: Tensor | None = None
    exchangeable: bool = True

    @cached_property
    def node_prior(self) -> Tensor:
        """Logarithm of P(x | v), [nodes, classes], or [1, classes] if it is the same for all."""
        if self.degree_bias is None:
            return self.prior.log().unsqueeze(0)
        return (self.prior.log() + self.columns @ self.degree_bias).log_softmax(1)

    @cached_property
    def end_shares(self) -> Tensor:
        """Class shares e of the ends of edges, [classes]."""
        if self.degree_bias is None:
            return self.prior
        shares = self._weighted_shares(self.node_prior.exp().unsqueeze(1))[0].clamp(min=_LEAST / len(self.prior))
        return shares / shares.sum()

    @property
    def ratios(self) -> Tensor:
        """Ratios 1 + t (K - 1) of the probability of an edge to that of independent ends, [classes, classes]."""
        affinity = self.end_shares.reciprocal().diag() if self.affinity is None else self.affinity
        return 1 + self.attraction * (affinity - 1)

    @property
    def messages(self) -> BeliefPropagation:
        """Belief propagation along the edges alone."""
        strengths = self.prior.new_tensor([self.attraction])
        return BeliefPropagation(
            graph=self.graph, prior=self.end_shares, edge_strengths=strengths, affinity=self.affinity
        )

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
        are weak. So exchangeable classes are renamed once. Then messages converge again. The new names are the
        permutation s of greatest

        .. math:: \sum_v \sum_x b_v(x) \ln P(y'_v | s(x))

        This is an assignment problem (Kuhn 1955).

        Args:
            evidence: Log-likelihood of each node's own report, [nodes, K + 1, classes].
            max_sweeps: Number of sweeps after which to stop in any case; None chooses it by the number of messages.
            damping: Weight of the previous message, and of the previous field.
            tolerance: Mean change of a node's posterior (total variation) below which messages have converged.
        """
        sweeps = max_sweeps or self.affordable_sweeps(evidence[0].numel())
        state = self._named(evidence, sweeps, damping, tolerance, learning=False)
        return state.beliefs + state.model.end_shares.log()

    def learned(self, evidence: Tensor, *, max_sweeps: int | None = None) -> tuple[BlockModel, Tensor]:
        r"""Return the model that expectation maximisation finds, and its log-beliefs [nodes, 1, classes].

        One step follows each sweep. Given the beliefs of both ends without an edge, its expected classes are

        .. math:: C_{xz} = \sum_{uv} \frac{b_{u \setminus v}(x) K_{xz} b_{v \setminus u}(z)}
            {\sum_{x'z'} b_{u \setminus v}(x') K_{x'z'} b_{v \setminus u}(z')}

        Without a degree bias an edge copies a class with the probability that C shows. With it, K is C relative to
        independent ends, as if 100 more edges copied a class as often. The bias takes a step of its penalised
        likelihood, whose Hessian is at most that of n / 2 nodes (Boehning 1992). It begins where reports alone lead it.

        Args:
            evidence: Log-likelihood of each node's own report, [nodes, 1, classes].
            max_sweeps: Number of sweeps after which to stop in any case; None chooses it by the number of messages.
        """
        sweeps, model = max_sweeps or self.affordable_sweeps(2 * evidence[0].numel()), self
        if self.degree_bias is not None:
            for _ in range(_DEGREE_STEPS):
                model = model._with_degrees((evidence[:, 0] + model.node_prior).softmax(1))
            model = replace(model, affinity=_scaled(model.ratios, model.end_shares), attraction=1.0)
        state = model._named(evidence, sweeps, _DAMPING, _TOLERANCE, learning=True)
        return state.model, state.beliefs + state.model.end_shares.log()

    def affordable_sweeps(self, columns: int) -> int:
        """Return the number of sweeps that compute about `_WORK` entries of messages, within `_SWEEPS`.

        Args:
            columns: Numbers in a message: training sets times classes.
        """
        return min(max(_WORK // (2 * self._operators.num_edges * columns), _SWEEPS[0]), _SWEEPS[1])

    @property
    def _operators(self) -> GraphOperators:
        return operators_of(self.graph, self.prior.device)

    @cached_property
    def columns(self) -> Tensor:
        """Columns phi of each node [nodes, 3], 0 for a node without neighbours: its prior is pi."""
        joined = torch.from_numpy(self._operators.graph.degrees > 0).to(self.prior)
        return degree_columns(self._operators) * joined.unsqueeze(1)

    def _named(self, evidence: Tensor, sweeps: int, damping: float, tolerance: float, *, learning: bool) -> _State:
        """Return the state in which messages converge, after classes are renamed once if sizes do not tell them."""
        state = self._iterate(evidence, sweeps, damping, tolerance, learning=learning)
        if self.exchangeable and (names := state.best_names(evidence)) is not None:
            renamed = state.renamed(names, evidence)
            state = renamed.model._iterate(evidence, sweeps, damping, tolerance, start=renamed, learning=learning)
        return state

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
        model, shares, communicator = self, None, self._operators.communicator
        messages = self.messages.no_messages(evidence) if start is None else start.messages
        beliefs = evidence + model._offsets if start is None else start.beliefs
        posterior = softmax(beliefs + self.end_shares.log())
        for sweep in tracked(range(max_sweeps), "Veil, block model, sweeps"):
            found = self._weighted_shares(posterior)
            shares = found if shares is None else torch.lerp(found, shares, damping)
            nothing_known = start is None and sweep == 0
            arrived = model.messages.sweep(messages, beliefs, damping=0.0 if nothing_known else damping)
            beliefs = evidence + model._offsets + arrived + model._field(shares)
            before, posterior = posterior, softmax(beliefs + model.end_shares.log())
            if learning:
                model = model._maximised(messages, beliefs, posterior[:, 0])
            change = communicator.all_reduce_sum((posterior - before).abs().sum())
            if float(change) < 2 * tolerance * self._operators.num_joined * evidence.shape[1]:
                break
        return _State(model=model, messages=messages, beliefs=beliefs)

    @property
    def _offsets(self) -> Tensor:
        """What a node's degree says about its class, relative to the ends of edges, [nodes or 1, 1, classes]."""
        return (self.node_prior - self.end_shares.log()).unsqueeze(1)

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
        ratios = shares / self.end_shares if self.affinity is None else shares @ self.affinity.T
        return self.weights.view(-1, 1, 1) * (self.attraction * (1 - ratios))

    def _maximised(self, messages: Tensor, beliefs: Tensor, posterior: Tensor) -> BlockModel:
        """Return the model after one step of expectation maximisation; see `learned`."""
        joint = self._joint_shares(messages, beliefs[:, 0] + self.end_shares.log())
        ends = joint.sum(1).clamp(min=_LEAST / len(self.prior))  # a class may lose all its edges where reports are weak
        independent = torch.outer(ends, ends)
        copied = float((joint.diagonal() - ends.square()).sum() / (ends * (1 - ends)).sum())
        copied = min(max(copied, _LEAST), _MOST)
        if self.degree_bias is None:
            return replace(self, attraction=copied)
        edges = self._operators.num_edges
        expected = copied * ends.diag() + (1 - copied) * independent
        joint = (edges * joint + _PSEUDO_EDGES * expected) / (edges + _PSEUDO_EDGES)
        model = self._with_degrees(posterior)
        return replace(model, affinity=_scaled(joint / independent, model.end_shares))

    def _joint_shares(self, messages: Tensor, log_beliefs: Tensor) -> Tensor:
        """Return the expected shares of edges that join each pair of classes, [classes, classes].

        Of many edges that one process holds, every n-th is used: there are few numbers to learn.
        """
        operators, step = self._operators, _block_edges(messages)
        (sources, targets), counted, ratios = operators.edges, operators.counted_edges, self.ratios
        beliefs = operators.communicator.exchange_halo((log_beliefs - log_beliefs.amax(1, keepdim=True)).exp())
        stride = max(1, messages.shape[1] // _LEARNING_EDGES) if counted is None else 1

        def expected(start: int) -> Tensor:
            block = slice(start, start + step * stride, stride)
            first = beliefs[sources[block]].mul_(messages[1, block].neg().exp_())
            second = beliefs[targets[block]].mul_(messages[0, block].neg().exp_())
            totals = ((first @ ratios) * second).sum(1, keepdim=True)
            weights = totals.clamp(min=_TINY).reciprocal_()
            return (
                (first * (weights if counted is None else weights * counted[block].unsqueeze(1))).T @ second
            ).double()

        starts = range(0, messages.shape[1], step * stride)
        found = torch.stack(map_in_threads(expected, starts, "Veil, block model, expected classes of edges"))
        joint = operators.communicator.all_reduce_sum(found.sum(0)).to(ratios) * ratios
        return (joint + joint.T) / (2 * joint.sum())

    def _with_degrees(self, posterior: Tensor) -> BlockModel:
        """Return the model after one step of the degree bias towards a posterior, [nodes, classes]."""
        operators, bias = self._operators, self.degree_bias
        if bias is None:
            return self
        gradient = self.columns.double().T @ (posterior - self.node_prior.exp()).double()
        gradient = operators.communicator.all_reduce_sum(gradient).to(posterior) - _DEGREE_PRECISION * bias
        nodes = operators.communicator.global_nodes(operators.num_nodes)
        return replace(self, degree_bias=bias + gradient / (nodes / 2 + _DEGREE_PRECISION))


def _scaled(affinity: Tensor, ends: Tensor) -> Tensor:
    """Return the affinity D K D with D diagonal such that K e = 1 (Sinkhorn and Knopp 1967)."""
    for _ in range(_SCALINGS):
        scale = (affinity @ ends).rsqrt()
        affinity = affinity * scale * scale.unsqueeze(1)
    return affinity


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
    """A model, its messages [2, edges, (K + 1) classes] and log-beliefs relative to the ends of edges."""

    model: BlockModel
    messages: Tensor
    beliefs: Tensor

    def best_names(self, evidence: Tensor) -> Tensor | None:
        """Return, for each class, the class that should have its name, [K + 1, classes]; None if all keep theirs."""
        posterior = softmax(self.beliefs + self.model.end_shares.log())
        scores = torch.einsum("vkx,vkz->kzx", posterior.double(), evidence.double())
        scores = self.model._operators.communicator.all_reduce_sum(scores)
        names = np.stack([_assignment(each) for each in scores.cpu().numpy()])
        return None if (names == np.arange(names.shape[1])).all() else torch.from_numpy(names).to(evidence.device)

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
    """Return log-beliefs [nodes, K + 1 or 1, classes] of the block model in which degrees say nothing about classes.

    Where every class attracts itself equally, as far as reports show, one number is learned, the attraction.
    Otherwise the estimated affinity is used. Both are from all reports, so they have seen those that a training set
    leaves out. They tell how much neighbours are alike, but not who belongs to which class. One report of n moves the
    attraction, or a share of the affinity, by an order of 1 / n.

    Args:
        labels: Label reports in folds.
        affinity: Affinity estimated from the reports at both ends of edges; None if there are no such edges.
    """
    model = _start(labels, affinity)
    if affinity is None or affinity.uniformly_assortative:
        model, _ = model.learned(labels.evidence_of(slice(labels.num_folds, None)))
    else:
        model = replace(model, prior=affinity.end_shares.to(model.prior))
    sweeps = model.affordable_sweeps((labels.num_folds + 1) * labels.reports.num_classes)
    return labels.by_sets(lambda sets: [model.log_posterior(labels.evidence_of(sets), max_sweeps=sweeps)])[0]


def degree_model_log_posterior(labels: CrossFitting, affinity: ClassAffinity | None) -> Tensor:
    """Return log-beliefs [nodes, K + 1 or 1, classes] of the block model whose classes differ in affinity and degree.

    Each training set learns its own model: its many parameters would remember reports that they should be judged on.

    Args:
        labels: Label reports in folds.
        affinity: Affinity to begin with where classes do more than attract themselves equally.
    """
    model = _start(labels, affinity)
    model = replace(model, degree_bias=model.prior.new_zeros(model.columns.shape[1], len(model.prior)))
    sweeps = max(_LEARNING_SWEEPS, model.affordable_sweeps(2 * (labels.num_folds + 1) * labels.reports.num_classes))

    def beliefs(sets: slice) -> list[Tensor]:
        each = torch.split(labels.evidence_of(sets), 1, dim=1)
        return [torch.cat([model.learned(evidence, max_sweeps=sweeps)[1] for evidence in each], dim=1)]

    return labels.by_sets(beliefs)[0]


def _start(labels: CrossFitting, affinity: ClassAffinity | None) -> BlockModel:
    """Return the model with which learning begins."""
    graph, prior = labels.perturbed.graph, labels.reports.prior
    weights = torch.from_numpy(graph.degrees).to(prior)
    model = BlockModel(graph=graph, prior=prior, weights=weights, exchangeable=labels.reports.sizes_are_alike)
    if affinity is None or affinity.uniformly_assortative:
        return model
    return replace(model, attraction=1.0, affinity=affinity.matrix.to(prior))
