"""Reported labels that take no part in a training and estimate its accuracy instead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.exchange import ALONE, Exchange
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import Method, StructureOnly, Veil
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.frequency import estimate_frequencies, estimated_variance
from veilgraph.privacy.mechanisms import LabelMechanism, SymmetricChannel


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutLabels:
    """Reported labels that take no part in training or selection and estimate the accuracy instead.

    Attributes:
        nodes: numbers of the nodes, [held out].
        named: classes that each report names, [held out, classes].
        channel: probabilities that a report names the true class, or a given other class.
        control: classes that the structure-only control predicts for the nodes, [held out].
        exchange: exchanges with processes that hold other nodes.
    """

    nodes: NDArray[np.int64] = field(repr=False)
    named: NDArray[np.bool_] = field(repr=False)
    channel: SymmetricChannel
    control: NDArray[np.int64] = field(repr=False)
    exchange: Exchange = ALONE

    @classmethod
    def of(
        cls, perturbed: PerturbedGraph, seen: PerturbedGraph, split: Split, exchange: Exchange, *, device: str
    ) -> HeldOutLabels:
        """Return the labels held out, and what the control predicts from the reports that training sees.

        Args:
            perturbed: all reports.
            seen: the reports that training sees.
            split: the split.
            exchange: exchanges with processes that hold other nodes.
            device: device of the control.
        """
        nodes, mechanism = np.flatnonzero(split.test), perturbed.label_mechanism
        return cls(
            nodes=nodes,
            named=mechanism.named(perturbed.labels[nodes]),
            channel=mechanism.channel,
            control=StructureOnly(device=device).fit(seen, split).predict()[nodes],
            exchange=exchange,
        )

    def estimate_accuracy(
        self, predicted: NDArray[np.int64], contamination: Contamination | None = None
    ) -> dict[str, float]:
        r"""Return an unbiased estimate of the share of people whose true label is predicted, and its standard error.

        A report names the predicted class with probability p if the prediction is right, and q otherwise. So the
        share of such reports is q + (p - q) times the accuracy, and the estimator of frequencies applies to it. A
        share a of reports that were not randomized names it with another probability r, whatever is true:

        .. math:: \text{share} = (1 - a) (q + (p - q)\, \text{accuracy}) + a\, r

        Args:
            predicted: predicted classes of the nodes, [held out].
            contamination: reports that were not randomized, as the training found them; None if all were. Its own
                error is not part of the standard error.
        """
        agrees, classes = self.named[np.arange(len(self.nodes)), predicted], self.named.shape[1]
        # How many reports name the class that is predicted, and how often each class is predicted, [classes].
        counts = [np.bincount(each, minlength=classes) for each in (predicted[agrees], predicted)]
        agreeing, chosen = self.exchange.sum(np.stack(counts))
        count = int(chosen.sum())
        observed = np.asarray(agreeing.sum() / count, dtype=np.float64)
        error = np.sqrt(estimated_variance(observed, self.channel, float(max(count, 2))))
        if contamination is not None:
            lies = chosen @ np.array(contamination.named_shares) / count
            observed = (observed - contamination.share * lies) / (1 - contamination.share)
            error = error / (1 - contamination.share)
        return {"accuracy": float(estimate_frequencies(observed, self.channel)), "standard_error": float(error)}

    def judge(self, method: Method, mechanism: LabelMechanism) -> UnusedReports:
        """Return the labels with the predictions of a method that has not seen them."""
        probabilities = method.predict_proba()[self.nodes].astype(np.float64)
        return UnusedReports(nodes=self.nodes, probabilities=probabilities, named=self.named, mechanism=mechanism)

    def estimated_accuracies(self, method: Method) -> dict[str, dict[str, float]]:
        """Return the estimates for a fitted method and for the control, by name, with the liars that it found."""
        found = method.contamination_ if isinstance(method, Veil) else None
        predicted = {method.name: method.predict()[self.nodes], StructureOnly.name: self.control}
        return {name: self.estimate_accuracy(classes, found) for name, classes in predicted.items()}
