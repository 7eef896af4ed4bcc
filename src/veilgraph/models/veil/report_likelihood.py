"""Likelihood of label reports given classes, where some of them may not have been randomized."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from veilgraph.models.veil.label_reports import LabelReports


@dataclass(frozen=True, eq=False)
class ReportLikelihood:
    """Likelihood of each report given the class of its node.

    Attributes:
        reports: The label reports.
    """

    reports: LabelReports

    @property
    def contrast(self) -> float:
        """Likelihood of a report for a class that it names less that for another, up to a factor. With GRR: p - q."""
        likelihood = self.reports.perturbed.label_mechanism.likelihood
        return float(likelihood.keep) - float(likelihood.other)

    @cached_property
    def outside(self) -> float | Tensor:
        """Likelihood of a report for a class that it does not name, up to the same factor. With GRR it is q.

        With contamination it differs between reports, [nodes]: a report that was not randomized names any class.
        """
        stated = float(self.reports.perturbed.label_mechanism.likelihood.other)
        return (
            stated
            if self.reports.contamination is None
            else stated + self.reports.contamination.likelihood(self.reports.named, self.reports.degrees)
        )

    @property
    def outside_of_reports(self) -> float | Tensor:
        """`outside` of the reporting nodes, [reports] with contamination."""
        return self.outside[self.reports.nodes] if isinstance(self.outside, Tensor) else self.outside

    @cached_property
    def honesty(self) -> float | Tensor:
        r"""Probability that a report was randomized, 1 without contamination, otherwise [nodes].

        .. math:: h = \frac{(1 - a) P_0(y')}{(1 - a) P_0(y') + a\, r(y')}, \qquad P_0(y') = \sum_x \pi_x P_0(y' | x)
        """
        if not isinstance(self.outside, Tensor):
            return 1.0
        named = self.contrast * (self.reports.named.to(self.reports.prior) @ self.reports.prior)
        return (float(self.reports.perturbed.label_mechanism.likelihood.other) + named) / (self.outside + named)

    @property
    def log_scale(self) -> float:
        """Logarithm of the factor by which `log_likelihood` is too large with contamination: the sum of ln(1 - a)."""
        if self.reports.contamination is None:
            return 0.0
        logs = (1 - self.reports.contamination.shares_at(self.reports.degrees[self.reports.nodes])).log()
        return float(self.reports.communicator.all_reduce_sum(logs.sum()))

    def log_likelihood(self, log_probabilities: Tensor) -> Tensor:
        r"""Return the log-likelihood of each report for class log-probabilities [..., reports, classes].

        .. math:: \ln \sum_x p_x P(y' | x) = \ln \left( b + (a - b) \sum_{x \in y'} p_x \right)

        with a the likelihood of classes that the report names, and b that of the others.
        """
        index = self.reports.reported_classes.expand(*log_probabilities.shape[:-1], -1)
        named = log_probabilities.gather(-1, index).exp().sum(-1)
        return torch.log(self.outside_of_reports + self.contrast * named)
