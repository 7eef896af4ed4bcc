"""Classes of people whose neighbours are private: label reports, answers and features in one posterior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import Method, begin_fit, check_is_fitted
from veilgraph.models.engine.device import torch_threads_for
from veilgraph.models.naive_bayes import feature_log_likelihood
from veilgraph.models.neighbour_waves.answer_columns import answer_columns, share_columns
from veilgraph.models.neighbour_waves.class_networks import HIDDEN, Inputs, Weights, logits, standardise, train
from veilgraph.models.neighbour_waves.public_evidence import public_evidence
from veilgraph.models.saved_state import FittedState
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import Mechanism

_QUIET_SHARE, _MOST_QUIET = 0.1, 1000
_FOLDS = 5
_MAX_REPORTS = 12_000
_SHARPNESS = 3.0
_FACTORS, _FACTOR_SPREAD = np.geomspace(0.25, 2, 31), 0.3
_FEATURE_FACTORS, _FEATURE_SPREAD = np.geomspace(0.03, 2, 31), 1.0
"""Features depend on each other in a class, so that naive Bayes counts some of them twice: small factors are usual."""

_LEAST_GAIN = 1.0
"""Log-likelihood of unused reports by which a kind of evidence has to pay: the number of added weights."""

_PASSES = 100
_TINY = 1e-12


@dataclass(kw_only=True)
class NeighbourWaves(Method):
    r"""Learn from label reports, answers about neighbour lists and, if asked, feature reports; no edge is read.

    The posterior of a person's class joins their own label report y', the answers a of all waves and the features x':

    .. math:: P(x \mid y', a, x') \propto
        P(y' \mid x)\, \pi(x) \left( \frac{q(x \mid a)}{\pi(x)} \right)^{f} P(x' \mid x)^{g}
        \left( \frac{r(x \mid z)}{\pi(x)} \right)^{h}

    The networks q learn what answers are worth from randomized labels alone, by forward correction. They are
    cross-fitted: a person's q comes from networks that did not learn from their report. All waves enter together,
    because they are looks at the same neighbours.

    Feature reports enter as naive-Bayes log-likelihoods, with rates from reports alone. Public attributes z enter by a
    cross-fitted logistic regression r. Each kind of evidence has to raise the log-likelihood of label reports that it
    did not use by more than 1, the number of added weights. Otherwise its factor f, g or h is 0.

    One reporter in ten is *quiet*: their label report is in no table, so no answer echoes it. The factor f is
    calibrated on quiet reporters, and they alone judge the model. With weak reports and few people answers may teach
    nothing: then f is 0, and nobody's prediction is worse than the class shares.

    Args:
        seed: seed of folds, quiet reporters and initial weights. It must be the same in all waves of a series.

    Attributes:
        prior_: After fitting, estimated shares of the classes, [classes].
        factor_: After fitting, calibration factor f; 0 if answers are not used.
        feature_factor_: After fitting, calibration factor g; 0 if features are not used.
        public_factor_: After fitting, calibration factor h; 0 if public attributes are not used.
        probabilities_: After fitting, class probabilities with the own report, [nodes, classes].
        without_own_report_: After fitting, the same without it, out of fold, [nodes, classes].

    >>> NeighbourWaves().uses_features
    True
    """

    name: ClassVar[str] = "neighbour_waves"

    seed: int = 0
    prior_: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    factor_: float = field(init=False, repr=False, compare=False)
    feature_factor_: float = field(init=False, repr=False, compare=False)
    public_factor_: float = field(init=False, default=0.0, repr=False, compare=False)
    scaling_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    weights_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    without_own_report_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Return None: features are used where there are any."""
        return None

    @classmethod
    def unmet_graph(cls, *, has_edges: bool) -> str | None:
        """Return that the method needs answers, where there are edges instead."""
        return "answers about private neighbours" if has_edges else None

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Learn from all label reports; the split only has to have some, as for every method."""
        begin_fit(self, perturbed, split)
        likelihood = _report_likelihood(perturbed)
        self.prior_ = _class_shares(likelihood[perturbed.has_label])
        self.factor_, self.scaling_, self.weights_ = 1.0, np.zeros(0, np.float32), np.zeros(0, np.float32)
        folds, taught = self._folds(perturbed)
        answers = np.zeros((len(folds), _FOLDS + 1, len(self.prior_)))
        with torch_threads_for(perturbed.graph.num_nodes):
            before = self._weigh_public(perturbed, likelihood, folds)
            if perturbed.neighbour_waves:
                answers = self._learn(perturbed, likelihood, folds, taught, before)
            features = self._weigh_features(perturbed, likelihood, folds, answers, before)
        plain = before + self.factor_ * answers[:, -1] + self.feature_factor_ * features
        self.without_own_report_ = _normalised(plain).astype(np.float32)
        self.probabilities_ = self._posterior(perturbed)
        return self

    def _folds(self, perturbed: PerturbedGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the fold of each report that is in tables [nodes], -1 elsewhere; and the nodes that teach networks."""
        public = np.flatnonzero(perturbed.has_label & ~self.quiet(perturbed))
        rng = np.random.default_rng(self.seed)
        taught, others = np.split(rng.permutation(public), [_MAX_REPORTS])
        taught = np.sort(taught)
        folds = np.full(perturbed.graph.num_nodes, -1)
        folds[taught] = rng.permutation(np.arange(len(taught)) % _FOLDS)
        folds[others] = np.arange(len(others)) % _FOLDS
        return folds, taught

    def _learn(
        self,
        perturbed: PerturbedGraph,
        likelihood: NDArray[np.float64],
        folds: NDArray[np.int64],
        taught: NDArray[np.int64],
        before: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Train the networks and calibrate them; return log-odds of the answers against the prior.

        Returns:
            Log-odds [nodes, K + 1, classes]: from the network of each fold, and last out of fold.
        """
        if len(taught) < _FOLDS:
            raise FitError(
                f"{len(taught)} label reports are too few to learn from: at least {_FOLDS} people must report"
            )
        quiet = self.quiet(perturbed)
        self.scaling_ = _scaling(perturbed, np.isin(np.arange(len(quiet)), taught))
        inputs = _inputs(perturbed, self.scaling_)
        networks, own = train(
            inputs.of(torch.from_numpy(taught)),
            torch.from_numpy(likelihood[taught].astype(np.float32)),
            torch.from_numpy(folds[taught]),
            torch.from_numpy(self.prior_.astype(np.float32)),
            num_folds=_FOLDS,
            seed=self.seed,
        )
        self.weights_ = np.concatenate([each.numpy().ravel() for each in networks])
        of_folds = logits(networks, inputs).mT
        found = of_folds.mean(dim=0)
        found[torch.from_numpy(taught)] = own
        evidence = np.stack([_against_prior(each, perturbed, self.prior_) for each in (*of_folds, found)], axis=1)
        self.factor_ = _worthwhile_factor(evidence[quiet, -1], likelihood[quiet], before[quiet])
        return evidence

    def _weigh_features(
        self,
        perturbed: PerturbedGraph,
        likelihood: NDArray[np.float64],
        folds: NDArray[np.int64],
        answers: NDArray[np.float64],
        before: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Calibrate feature reports, or leave them out; return their log-likelihoods, out of fold, [nodes, classes]."""
        self.feature_factor_ = 0.0
        if not perturbed.has_features.any():
            return np.zeros_like(likelihood)
        quiet, reporting = self.quiet(perturbed), perturbed.has_label
        kept = (folds[:, None] != np.arange(_FOLDS + 1)) & (reporting & ~quiet)[:, None]
        own = np.where(kept[:, :, None], _log(likelihood)[:, None], 0)
        sets = _feature_evidence(perturbed, before[:, None] + self.factor_ * answers + own)
        evidence = np.take_along_axis(sets, folds[:, None, None] % (_FOLDS + 1), axis=1)[:, 0]
        chosen = evidence[reporting], likelihood[reporting], (before + self.factor_ * answers[:, -1])[reporting]
        self.feature_factor_ = _worthwhile_factor(*chosen, factors=_FEATURE_FACTORS, spread=_FEATURE_SPREAD)
        if self.feature_factor_ and len(self.weights_):
            others = before + self.feature_factor_ * evidence
            self.factor_ = _worthwhile_factor(answers[quiet, -1], likelihood[quiet], others[quiet])
        return evidence

    def _weigh_public(
        self, perturbed: PerturbedGraph, likelihood: NDArray[np.float64], folds: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Calibrate public attributes, or leave them out; return log-probabilities before answers, [nodes, classes]."""
        self.public_factor_, log_prior = 0.0, np.broadcast_to(np.log(self.prior_), likelihood.shape)
        if perturbed.public is None or folds.max() < 0:
            return log_prior
        evidence, reporting = public_evidence(perturbed, perturbed.public, folds), perturbed.has_label
        self.public_factor_ = _worthwhile_factor(evidence[reporting], likelihood[reporting], log_prior[reporting])
        return log_prior + self.public_factor_ * evidence

    def quiet(self, perturbed: PerturbedGraph) -> NDArray[np.bool_]:
        """Return the reporters whose reports are in no table, [nodes]. Who is quiet does not depend on reports."""
        nodes = perturbed.graph.num_nodes
        chosen = np.random.default_rng([self.seed, 1]).random(nodes) < min(_QUIET_SHARE, _MOST_QUIET / nodes)
        return np.asarray(chosen & perturbed.has_label)

    def next_table(self, perturbed: PerturbedGraph) -> BeliefTable:
        r"""Return the table to publish before the next wave.

        .. math:: b(x) \propto \left( P(x) / \pi(x) \right)^{3}

        Sharper beliefs fill the sensitivity that the noise is made for: a belief in two classes alike adds little to
        either. People without a report and without an answer are unknown. Features, where they are used, are in what is
        believed about a person; of quiet people too.
        """
        check_is_fitted(self)
        public = perturbed.has_label & ~self.quiet(perturbed)
        own = np.where(public[:, None], _log(_report_likelihood(perturbed)), 0)
        evidence = _log(self.without_own_report_) + own - np.log(self.prior_)
        read = (perturbed.has_features & (self.feature_factor_ > 0)) | (self.public_factor_ > 0)
        known = np.logical_or.reduce([public, read, *(wave.has_answer for wave in perturbed.neighbour_waves)])
        return BeliefTable.of(_normalised(_SHARPNESS * evidence), known=known)

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes] of the people of the fit, or of others who answered the same."""
        check_is_fitted(self)
        return self.probabilities_.copy() if perturbed is None else self._posterior(perturbed)

    def _posterior(self, perturbed: PerturbedGraph) -> NDArray[np.float32]:
        """Return class probabilities from the mean of all networks and the own reports, [nodes, classes]."""
        plain = np.log(self.prior_) + _log(_report_likelihood(perturbed))
        if self.public_factor_:
            if perturbed.public is None:
                raise FitError("the model learned from public columns, and there are none: give the same columns")
            evidence = public_evidence(perturbed, perturbed.public, self._folds(perturbed)[0])
            plain = plain + self.public_factor_ * evidence
        if len(self.weights_):
            inputs = _inputs(perturbed, self.scaling_)
            found = logits(_unpack(self.weights_, inputs, len(self.prior_)), inputs).mean(dim=0).T
            plain = plain + self.factor_ * _against_prior(found, perturbed, self.prior_)
        if self.feature_factor_ and perturbed.has_features.any():
            plain = plain + self.feature_factor_ * _feature_evidence(perturbed, plain[:, None])[:, 0]
        return _normalised(plain).astype(np.float32)

    def epsilon_spent(self, guarantee: Guarantee) -> float:
        """Return the user-level epsilon of label, features and lists, for any two records with any two lists."""
        return guarantee.total_user_level

    def predict_without_own_report(self, perturbed: PerturbedGraph) -> NDArray[np.float64]:
        """Return class probabilities without the own report, out of fold, [nodes, classes].

        A report that is in a table can echo in the answers; `unused_reports` has none of these.
        """
        check_is_fitted(self)
        return self.without_own_report_.astype(np.float64)

    def restore(self, state: FittedState) -> None:
        """Set the fitted attributes to a state that `fitted_state` returned; refuse one of another form."""
        super().restore(state)
        shapes = {name: state.arrays[name].shape for name in ("prior", "probabilities", "without_own_report")}
        nodes_and_classes = (*self.probabilities_.shape[:1], *self.prior_.shape)
        if self.prior_.ndim != 1 or {self.probabilities_.shape, self.without_own_report_.shape} != {nodes_and_classes}:
            raise FitError(f"shapes of the fitted arrays disagree about people or classes: {shapes}")

    def unused_reports(self, perturbed: PerturbedGraph) -> UnusedReports:
        """Return the reports of quiet people with predictions that did not use them."""
        nodes = np.flatnonzero(self.quiet(perturbed))
        return UnusedReports(
            nodes=nodes,
            probabilities=self.predict_without_own_report(perturbed)[nodes],
            named=perturbed.label_mechanism.named(perturbed.labels[nodes]),
            mechanism=perturbed.label_mechanism,
        )


def _against_prior(found: Tensor, perturbed: PerturbedGraph, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-odds of each class against the prior, given the answers; 0 for people who answered nothing."""
    answered = np.logical_or.reduce([wave.has_answer for wave in perturbed.neighbour_waves])
    evidence = found.double().log_softmax(dim=1).numpy() - np.log(prior)
    return np.where(answered[:, None], evidence, 0)


def _report_likelihood(perturbed: PerturbedGraph) -> NDArray[np.float64]:
    """Return the probability of each label report given each class, up to a factor; 1 where there is none."""
    channel = perturbed.label_mechanism.likelihood
    likelihood = np.where(perturbed.named_classes(), float(channel.keep), float(channel.other))
    return np.where(perturbed.has_label[:, None], likelihood, 1.0)


def _class_shares(likelihood: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the class shares with the greatest likelihood, by expectation maximisation from uniform shares.

    A hundred passes, and one pseudo-person in each class, keep rare classes possible.
    """
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_PASSES):
        weighted = likelihood * shares
        counts = 1 + (weighted / weighted.sum(axis=1, keepdims=True)).sum(axis=0)
        shares = counts / counts.sum()
    return np.asarray(shares)


def _feature_evidence(perturbed: PerturbedGraph, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log-likelihoods of the feature reports under each class, from class logits, [nodes, sets, classes]."""
    soft_labels = torch.from_numpy(logits).log_softmax(dim=2).exp().float()
    return np.asarray(feature_log_likelihood(perturbed, soft_labels).double().numpy())


def _worthwhile_factor(
    evidence: NDArray[np.float64],
    likelihood: NDArray[np.float64],
    before: NDArray[np.float64],
    *,
    factors: NDArray[np.float64] = _FACTORS,
    spread: float = _FACTOR_SPREAD,
) -> float:
    """Return the factor of the evidence that explains reports best; 0 if it does not pay for itself.

    Args:
        evidence: log-likelihoods, [reports, classes].
        likelihood: probability of each report given each class, [reports, classes].
        before: log-probabilities of the classes without the evidence, [reports, classes].
        factors: factors to choose from.
        spread: standard deviation of the factor's logarithm, which is normal around 0.
    """

    def log_likelihood(factor: float) -> float:
        chance = (_normalised(before + factor * evidence) * likelihood).sum(axis=1)
        return float(_log(chance).sum())

    found = np.array([log_likelihood(factor) for factor in factors])
    best = int(np.argmax(found - (np.log(factors) / spread) ** 2 / 2))
    return float(factors[best]) if found[best] - log_likelihood(0) > _LEAST_GAIN else 0.0


def _scaling(perturbed: PerturbedGraph, nodes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return means and standard deviations of all columns, [2, columns and shares]."""
    columns = standardise(answer_columns(perturbed.neighbour_waves), nodes, (0, 1))
    shares = standardise(share_columns(perturbed.neighbour_waves), nodes, (0,))
    return np.stack([np.concatenate([first, second]) for first, second in zip(columns, shares, strict=True)])


def _inputs(perturbed: PerturbedGraph, scaling: NDArray[np.float32]) -> Inputs:
    if not perturbed.neighbour_waves:
        raise FitError("the model learned from answers about neighbours, and there are none: give the same waves")
    columns, shares = answer_columns(perturbed.neighbour_waves), share_columns(perturbed.neighbour_waves)
    if scaling.shape != (2, columns.shape[2] + shares.shape[1]):
        raise FitError("the model learned from other waves: predict with answers to the same questions")
    (mean, share_mean), (deviation, share_deviation) = (np.split(each, [columns.shape[2]]) for each in scaling)
    return Inputs.of_columns((columns - mean) / deviation, (shares - share_mean) / share_deviation)


def _unpack(flat: NDArray[np.float32], inputs: Inputs, classes: int) -> Weights:
    """Return the weights of all networks from the array that `fit` keeps."""
    width, shares = len(inputs.vectors), len(inputs.shares)
    shapes = ((width, HIDDEN), (1, HIDDEN), (HIDDEN, 1), (width, 1), (shares, classes), (1, classes))
    ends = np.cumsum([_FOLDS * rows * columns for rows, columns in shapes])
    if flat.shape != (ends[-1],):
        raise FitError(f"the networks of the model have {flat.size} weights, not {ends[-1]}: it is damaged")
    parts = np.split(flat, ends[:-1])
    return Weights(*(torch.from_numpy(part.reshape(_FOLDS, *shape)) for part, shape in zip(parts, shapes, strict=True)))


def _normalised(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _log(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.log(np.maximum(values, _TINY)), dtype=np.float64)
