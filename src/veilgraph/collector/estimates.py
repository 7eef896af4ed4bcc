r"""What the reports say about everyone: estimated shares with their intervals.

They are computed from randomized reports alone, so they reveal nothing that the reports do not: privacy is closed
under post-processing. An interval is :math:`\tilde\pi \pm 1.96\,\hat\sigma`, with the unbiased estimate of the variance
of `veilgraph.frequency`: people drawn from a population, and the mechanism's own randomness, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.collected import Codes
from veilgraph.errors import MissingExtraError
from veilgraph.mechanisms import SymmetricChannel

Z_95 = 1.959964
_FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class Share:
    """The estimated share of people who hold a value.

    Attributes:
        name: of the value.
        estimate: unbiased; it can lie outside 0..1 where there are few reports.
        error: its standard error.
    """

    name: str
    estimate: float
    error: float

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval, within 0..1."""
        return min(1.0, max(0.0, self.estimate - Z_95 * self.error))

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval, within 0..1."""
        return min(1.0, max(0.0, self.estimate + Z_95 * self.error))


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """The distribution of one feature or of the label.

    Attributes:
        name: of the feature.
        shares: one for each value.
    """

    name: str
    shares: tuple[Share, ...]

    @property
    def is_binary(self) -> bool:
        """Whether one share says all."""
        return len(self.shares) == 2


def label_marginal(campaign: Campaign, codes: Codes) -> Marginal | None:
    """The label's estimated distribution; None where there are too few reports to know how far to trust it."""
    reported = codes.labels[codes.has_label]
    if campaign.label_mechanism is None or len(reported) < _FEWEST:
        return None
    return _marginal(campaign.label, campaign.schema.classes, reported, campaign.label_mechanism.channel)


def feature_marginals(campaign: Campaign, codes: Codes) -> list[Marginal]:
    """Every feature's estimated distribution; none where there are too few reports."""
    mechanism, schema = campaign.feature_mechanism, campaign.schema
    reported = codes.features[codes.has_features]
    if mechanism is None or len(reported) < _FEWEST:
        return []
    return [
        _marginal(name, names, reported[:, i], mechanism.channel(i))
        for i, (name, names) in enumerate(zip(schema.feature_names, schema.code_names, strict=True))
    ]


def _marginal(name: str, names: Iterable[str], codes: NDArray[Any], channel: SymmetricChannel) -> Marginal:
    try:
        # Only here: collecting needs no torch, and not every collector has it.
        import torch

        from veilgraph.frequency import estimate_frequencies, estimated_variance
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "server") from None
    total = float(len(codes))
    observed = torch.from_numpy(np.bincount(codes, minlength=channel.domain_size) / total)
    estimates = estimate_frequencies(observed, channel).tolist()
    errors = estimated_variance(observed, channel, total).sqrt().tolist()
    shares = (Share(name=n, estimate=e, error=s) for n, e, s in zip(names, estimates, errors, strict=True))
    return Marginal(name=name, shares=tuple(shares))
