"""Gradient boosting on public attributes and label estimates of neighbourhoods, by expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import Method, begin_fit, check_is_fitted
from veilgraph.models.engine.device import resolve_device, torch_threads_for
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.reconstruct.attribute_components import smoothed_components
from veilgraph.reconstruct.operators import GraphOperators, operators_of

ROUNDS = (1, 2)
"""Rounds of expectation maximisation to choose from."""

_TREES: Any = HistGradientBoostingClassifier  # scikit-learn has no types
_FOLDS, _COMPONENTS, _MAX_COLUMNS, _SMOOTHED = 5, 16, 64, (0, 2)
_HOPS, _RESTART, _STEPS, _FLOOR = (1, 2), 0.1, 10, 1e-6


@dataclass(kw_only=True)
class BoostedTrees(Method):
    r"""Boosted trees on each node's attributes and on unbiased estimates of the classes around it.

    Columns are the attributes as they are (16 components of more than 64 columns), 16 components of attributes that
    were smoothed over two hops, and means of unbiased label estimates over one hop, over two hops, and by personalised
    PageRank. A reporter's own report is in none of its columns: the
    estimates are computed without each of five folds of the reports. Trees are fitted to all classes of each reporter,
    weighted by the posterior given its report, and the posterior is computed again,

    .. math:: q_v(x) \propto p_v(x) P(y'_v | x)

    The number of rounds is the one that explains the reports of the validation nodes best. Then all reports are used.

    Args:
        seed: Seed of the folds.
        device: "auto", "cpu" or "cuda", for the propagation of label estimates.

    Attributes:
        rounds_: After fitting, the number of rounds.
        probabilities_: After fitting, class probabilities of the fitted graph, [nodes, classes].

    >>> BoostedTrees().uses_features
    False
    """

    name: ClassVar[str] = "boosted_trees"
    uses_features: ClassVar[bool] = False

    seed: int = 0
    device: str = "auto"
    rounds_: int = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Choose the number of rounds on the validation nodes' reports, then use all reports."""
        begin_fit(self, perturbed, split)
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        training = replace(perturbed, has_label=perturbed.has_label & split.train)
        score = noisy_log_likelihood([perturbed], [split.validation & perturbed.has_label], operators.device)
        found = _rounds(training, operators, self.seed, max(ROUNDS))
        scores = [float(score(torch.from_numpy(each).clamp(min=_FLOOR).log().T.unsqueeze(0))) for each in found]
        self.rounds_ = ROUNDS[int(np.argmax(scores))]
        self.probabilities_ = self._predict(perturbed)
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes]; on another graph, trees are fitted to its reports."""
        check_is_fitted(self)
        return self.probabilities_.copy() if perturbed is None else self._predict(perturbed)

    def _predict(self, perturbed: PerturbedGraph) -> NDArray[np.float32]:
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        return _rounds(perturbed, operators, self.seed, self.rounds_)[-1]


def _rounds(perturbed: PerturbedGraph, operators: GraphOperators, seed: int, rounds: int) -> list[NDArray[np.float32]]:
    """Return class probabilities of all nodes after each round, [nodes, classes]."""
    likelihood, reporters = perturbed.label_mechanism.likelihood, np.flatnonzero(perturbed.has_label)
    named = perturbed.named_classes()[reporters]
    evidence = float(likelihood.other) + float(likelihood.gain) * named
    attributes, classes = _attributes(perturbed, operators), named.shape[1]
    own, others = neighbourhoods(perturbed, operators, seed)
    train = np.concatenate([attributes[reporters], own[reporters]], axis=1)
    everyone = np.concatenate([attributes, np.where(perturbed.has_label[:, None], own, others)], axis=1)
    prior, found = np.full((1, classes), 1 / classes), []
    for _ in range(rounds):
        posterior = prior * evidence
        posterior /= posterior.sum(1, keepdims=True)
        trees = _TREES(
            max_iter=50,
            max_leaf_nodes=8,
            learning_rate=0.1,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=0,
        )
        rows = np.repeat(np.arange(len(reporters)), classes)
        trees.fit(train[rows], np.tile(np.arange(classes), len(reporters)), sample_weight=posterior.ravel())
        predicted = trees.predict_proba(everyone)
        prior = predicted[reporters]
        found.append(np.asarray(predicted, dtype=np.float32))
    return found


def _attributes(perturbed: PerturbedGraph, operators: GraphOperators) -> NDArray[np.float32]:
    """Return the attributes, or the components of many, and components of smoothed ones, [nodes, columns]."""
    public, blocks = perturbed.public, [np.zeros((perturbed.graph.num_nodes, 0), dtype=np.float32)]
    if public is None:
        return blocks[0]
    few = sum(block.shape[1] for block in public.encoded()) <= _MAX_COLUMNS
    if few:
        blocks += [block if isinstance(block, np.ndarray) else block.toarray() for block in public.encoded()]
    for hops in _SMOOTHED[1:] if few else _SMOOTHED:
        scores = smoothed_components(public, operators, hops=hops).scores
        blocks.append(scores[:, :_COMPONENTS].cpu().numpy())
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def neighbourhoods(
    perturbed: PerturbedGraph, operators: GraphOperators, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return label estimates around each node, without its own fold and from all reports, [nodes, columns] each."""
    channel = perturbed.label_mechanism.channel
    reported = torch.from_numpy(perturbed.has_label).to(operators.device).unsqueeze(1)
    named = torch.from_numpy(perturbed.named_classes()).to(operators.device, torch.float32)
    estimates = torch.cat([(named - float(channel.other)) / float(channel.gain) * reported, reported.float()], dim=1)
    folds = torch.from_numpy(np.random.default_rng(seed).integers(_FOLDS, size=len(named))).to(operators.device)
    with torch_threads_for(perturbed.graph.num_nodes):
        own = torch.zeros(len(named), named.shape[1] * (len(_HOPS) + 1), device=operators.device)
        for fold in range(_FOLDS):
            others = _means(estimates * (folds != fold).unsqueeze(1), operators)
            own[folds == fold] = others[folds == fold]
        everyone = _means(estimates, operators)
    return np.asarray(own.cpu().numpy()), np.asarray(everyone.cpu().numpy())


def _means(estimates: Tensor, operators: GraphOperators) -> Tensor:
    """Return means of estimates over hops and by personalised PageRank, [nodes, columns]; 0 where nobody reported."""
    sums = [operators.symmetric(estimates, hops) for hops in _HOPS]
    ranks = estimates
    for _ in range(_STEPS):
        ranks = (1 - _RESTART) * operators.symmetric(ranks, 1) + _RESTART * estimates
    sums.append(ranks)
    return torch.cat([each[:, :-1] / each[:, -1:].clamp(min=_FLOOR) * (each[:, -1:] > _FLOOR) for each in sums], dim=1)
