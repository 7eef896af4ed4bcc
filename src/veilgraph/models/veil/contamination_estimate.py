"""Estimation of contamination: maximum likelihood of out-of-fold reports, target class by target class."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.models.veil.contamination import Contamination, degree_groups
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.opinion_pool import Derivatives, projected_newton

FALSE_ALARM = 0.01
"""Bound on the probability that contamination is found where there is none."""

_SUSPICION = 3.0
"""Gain of the log-likelihood from which contamination is worth a second fit."""

_LEAST_PEOPLE = 0.08
"""Share of people for whom liars must stand, a / (p - q): fewer are within the error of any predictions."""

_HINT = 2.0
"""Expected gain from which a target class is worth a fit of its own."""

_MAX_SHARE = 0.99
_MAX_REPORTS = 20000
_START = 0.02
_BIAS_PRECISION, _TEMPERATURE_PRECISION = 0.25, 10.0
_DEGREE_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Shares of the reporting nodes of highest degrees, at most, that groups of nodes separate."""


def evidence_needed(num_classes: int) -> float:
    r"""Return the gain in out-of-fold log-likelihood at which contamination is accepted, :math:`\ln(c / 0.01)`.

    By Markov's inequality a likelihood ratio exceeds :math:`1 / \alpha` with a probability of at most alpha if the
    stated channel is true (Wasserman, Ramdas and Balakrishnan 2020). There is one ratio for each target class.

    >>> round(evidence_needed(7), 2)
    6.55
    """
    return math.log(num_classes / FALSE_ALARM)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fit:
    """A maximum of `MixtureLikelihood`.

    Attributes:
        point: Shares of each group and target, then log-temperature and biases.
        value: Log-likelihood, penalised.
    """

    point: Tensor
    value: float


class MixtureLikelihood:
    r"""Likelihood of out-of-fold reports under contamination, for given class probabilities.

    .. math:: \sum_v \ln \Big[ (1 - \textstyle\sum_t \alpha_{jt}) \sum_x p_{v,x} P_0(y'_v | x)
        + \sum_{t \in y'_v} \alpha_{jt} \Big], \qquad p_v = \operatorname{softmax}(s \ln p^0_v + b)

    with j the group of node v. Temperature s and biases b are free: the predictions p^0 were made under another
    contamination, so their class shares are not right. The Hessian is the sum of the outer products of the scores
    (Berndt, Hall, Hall and Hausman 1974).

    Args:
        log_probabilities: ln p^0, [reports, classes].
        named: Indicators of named classes, [reports, classes].
        contrast: Likelihood of a named class less that of others, under P_0.
        outside: Likelihood of the others.
    """

    def __init__(self, log_probabilities: Tensor, named: Tensor, contrast: float, outside: float) -> None:
        # Reports are the last dimension: sums over few classes are fast then.
        self.logits, self.named = log_probabilities.double().T.contiguous(), named.double().T.contiguous()
        self.contrast, self.outside = contrast, outside

    def maximise(self, start: Tensor, targets: list[int], groups: Tensor) -> _Fit:
        """Maximise over shares of the targets in each group, temperature and biases, from `start`."""
        shares = len(targets) * groups.shape[1]

        def objective(point: Tensor) -> Derivatives:
            return self._derivatives(point, targets, groups)

        point, value = projected_newton(objective, start, nonnegative=shares)
        return _Fit(point=point, value=-value)

    def scores(self, point: Tensor, targets: list[int], groups: Tensor) -> tuple[Tensor, Tensor]:
        """Return the likelihood of each report [reports] and the derivatives of its logarithm [variables, reports]."""
        count = len(targets) * groups.shape[1]
        shares = point[:count].view(groups.shape[1], len(targets))
        temperature, bias = point[count].exp(), point[count + 1 :].unsqueeze(1)
        probabilities = (temperature * self.logits + bias).softmax(dim=0)
        among_named = probabilities * self.named
        total = among_named.sum(0)
        honest = self.outside + self.contrast * total
        of_report = (groups @ shares).T
        lies, randomized = self.named[targets], 1 - of_report.sum(0)
        likelihood = randomized * honest + (lies * of_report).sum(0)
        slope = (among_named - probabilities * total) * (randomized * self.contrast)
        by_share = (groups.T.unsqueeze(1) * (lies - honest)).flatten(0, 1)
        by_temperature = temperature * (slope * self.logits).sum(0, keepdim=True)
        return likelihood, torch.cat([by_share, by_temperature, slope]) / likelihood

    def _derivatives(self, point: Tensor, targets: list[int], groups: Tensor) -> Derivatives:
        count = len(targets) * groups.shape[1]
        if bool((point[:count].view(groups.shape[1], -1).sum(1) > _MAX_SHARE).any()):
            return Derivatives(math.inf, torch.zeros_like(point), ())
        likelihood, scores = self.scores(point, targets, groups)
        precision = self.precision(point, count)
        value = -float(likelihood.log().sum()) + float((precision * point.square()).sum()) / 2
        return Derivatives(value, precision * point - scores.sum(1), (scores @ scores.T + precision.diag(),))

    @staticmethod
    def precision(point: Tensor, shares: int) -> Tensor:
        """Return the precision of the prior of each variable; shares have none."""
        precision = torch.full_like(point, _BIAS_PRECISION)
        precision[:shares], precision[shares] = 0.0, _TEMPERATURE_PRECISION
        return precision


def estimate_contamination(log_probabilities: Tensor, labels: CrossFitting) -> Contamination | None:
    """Estimate the reports that were not randomized; return None if the stated channel explains the reports.

    Target classes are added one by one: the class with the greatest score statistic, if it raises the log-likelihood
    enough. Then shares may differ between groups of degrees, if that raises it by as much again. In every real graph a
    few percent of people have a class that nothing around them tells. So liars must stand for more people than that.

    Args:
        log_probabilities: Out-of-fold class log-probabilities of the reporting nodes, [reports, classes].
        labels: The reports.
    """
    nodes, gathered = labels.every_report(_MAX_REPORTS), labels.reports.communicator.gather_rows
    places = torch.searchsorted(labels.reports.nodes, nodes.contiguous())
    stated = labels.perturbed.label_mechanism.likelihood
    model = MixtureLikelihood(
        gathered(log_probabilities[places], nodes),
        gathered(labels.reports.named[nodes], nodes),
        float(stated.keep) - float(stated.other),
        float(stated.other),
    )
    degrees = gathered(labels.reports.degrees[nodes], nodes)
    one_group = torch.ones(len(degrees), 1, dtype=torch.float64, device=labels.device)
    fit = model.maximise(one_group.new_zeros(1 + labels.reports.num_classes), [], one_group)
    targets: list[int] = []
    while len(targets) < labels.reports.num_classes - 1:
        needed = evidence_needed(labels.reports.num_classes) if targets else _SUSPICION
        target, expected = _most_suspicious(model, fit, targets, one_group)
        if expected < _HINT:
            break
        start = torch.cat([fit.point[: len(targets)], fit.point.new_full((1,), _START), fit.point[len(targets) :]])
        wider = model.maximise(start, [*targets, target], one_group)
        if wider.value - fit.value < needed:
            break
        targets, fit = [*targets, target], wider
    if not targets:
        return None
    found = _by_degree(model, fit, targets, labels, degrees)
    return found if found.share >= _LEAST_PEOPLE * (labels.reports.keep - labels.reports.other) else None


def greatest_contamination(found: Contamination, labels: CrossFitting) -> Contamination:
    r"""Return the greatest share that the reports allow for the targets of a contamination.

    Honest reports name each class with a probability of at least q. So with m targets, f the share of reports that name
    one, summed over the targets, and :math:`\bar w = (w - 1) / (k - 1)`,

    .. math:: a \le \frac{f - m q}{1 - m q + (m - 1) \bar w}

    Predictions that followed the liars everywhere cannot measure them. Those that believe nobody about a target can.
    """
    targets = [each for each, share in enumerate(found.targets) if share > 0]
    counts = labels.reports.communicator.all_reduce_sum(labels.reports.named[labels.reports.nodes].double().sum(0))
    shares = (counts / labels.reports.num_reports)[targets]
    others = (labels.reports.set_size - 1) / (labels.reports.num_classes - 1)
    least = len(targets) * labels.reports.other
    greatest = float(shares.sum() - least) / (1 - least + (len(targets) - 1) * others)
    bounded = min(max(greatest, found.share), _MAX_SHARE)
    excess = (shares - labels.reports.other).clamp(min=1e-6)
    return Contamination(
        share=bounded,
        targets=_spread(excess / excess.sum(), targets, labels.reports.num_classes),
        set_size=labels.reports.set_size,
    )


def _most_suspicious(model: MixtureLikelihood, fit: _Fit, targets: list[int], groups: Tensor) -> tuple[int, float]:
    """Return the class with the greatest score statistic for a share of unrandomized reports, and half the statistic.

    Half of it is the gain in log-likelihood to be expected near no contamination (Rao 1948).
    """
    classes = [each for each in range(len(model.named)) if each not in targets]
    shares = len(targets)
    point = torch.cat([fit.point[:shares], fit.point[shares:], fit.point.new_zeros(len(classes))])
    order = [*range(shares), *range(len(fit.point), len(point)), *range(shares, len(fit.point))]
    _, scores = model.scores(point[order], [*targets, *classes], groups)
    scores = scores[torch.tensor(order, device=scores.device).argsort()]
    precision = torch.cat([model.precision(fit.point, shares), point.new_zeros(len(classes))])
    information, gradient = scores @ scores.T + precision.diag(), scores.sum(1) - precision * point
    known, added = slice(None, len(fit.point)), slice(len(fit.point), None)
    explained = torch.linalg.solve(information[known, known], information[known, added])
    variance = (information[added, added] - information[added, known] @ explained).diagonal()
    efficient = (gradient[added] - explained.T @ gradient[known]).clamp(min=0)
    gains = efficient.square() / (2 * variance.clamp(min=1e-12))
    return classes[int(gains.argmax())], float(gains.max())


def _by_degree(
    model: MixtureLikelihood, fit: _Fit, targets: list[int], labels: CrossFitting, degrees: Tensor
) -> Contamination:
    """Return the contamination, with shares by degree if these raise the log-likelihood by `evidence_needed`."""
    count, classes = len(targets), labels.reports.num_classes
    distribution = fit.point[:count] / fit.point[:count].sum()
    common = Contamination(
        share=float(fit.point[:count].sum()),
        targets=_spread(distribution, targets, classes),
        set_size=labels.reports.set_size,
    )
    bounds = _degree_bounds(degrees.cpu().numpy())
    groups = torch.nn.functional.one_hot(degree_groups(degrees, bounds), len(bounds) + 1).double()
    start = torch.cat([fit.point[:count].repeat(len(bounds) + 1), fit.point[count:]])
    wider = model.maximise(start, targets, groups)
    if wider.value - fit.value < evidence_needed(classes):
        return common
    shares = wider.point[: count * groups.shape[1]].view(-1, count)
    weights = groups.mean(0) @ shares
    return replace(
        common,
        share=float(weights.sum()),
        targets=_spread(weights / weights.sum(), targets, classes),
        degrees=bounds,
        group_shares=tuple(shares.sum(1).tolist()),
    )


def _degree_bounds(degrees: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the lowest degree of the nodes of highest degrees, for each of `_DEGREE_SHARES`.

    >>> _degree_bounds(np.array([1, 1, 1, 1, 1, 1, 2, 9]))
    (2, 9)
    """
    values, counts = np.unique(degrees, return_counts=True)
    at_least = counts[::-1].cumsum()[::-1] / len(degrees)
    lowest = [values[at_least <= share] for share in _DEGREE_SHARES]
    return tuple(dict.fromkeys(int(each[0]) for each in lowest if len(each)))


def _spread(distribution: Tensor, targets: list[int], classes: int) -> tuple[float, ...]:
    """Return a distribution over all classes from one over the targets."""
    by_class = dict(zip(targets, distribution.tolist(), strict=True))
    return tuple(by_class.get(each, 0.0) for each in range(classes))
