"""Feature reports of any mechanism as codes, one for each node and feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import GRRFS, NOT_ASKED, JointGRR, MultiBit, SymmetricChannel


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportCodes:
    """Randomized values of features, as codes of the schema.

    Attributes:
        codes: `[nodes, features]`, the reported code, or NOT_ASKED where a report says nothing about a feature.
        reporting: `[nodes]`, nodes that sent a report.
        channels: channel of each feature, which randomized its code.
        answering_rate: probability that a report says something about a given feature.
    """

    codes: NDArray[Any]
    reporting: NDArray[np.bool_]
    channels: tuple[SymmetricChannel, ...]
    answering_rate: float

    @classmethod
    def of(cls, perturbed: PerturbedGraph) -> ReportCodes:
        """Read the codes from reports; raise a `ReconstructionError` if the mechanism does not report codes."""
        mechanism = perturbed.feature_mechanism
        if isinstance(mechanism, GRRFS | JointGRR):
            codes: NDArray[Any] = perturbed.features
            # Features of one domain size have the same channel. Its exact fractions are slow, so compute them once.
            sizes = mechanism.domain_sizes
            by_size = {size: mechanism.channel(sizes.index(size)) for size in set(sizes)}
            channels = tuple(by_size[size] for size in sizes)
        elif isinstance(mechanism, MultiBit) and _is_binary(mechanism, perturbed):
            codes = _signs_as_codes(perturbed.features)
            channels = (mechanism.sign_channel,) * mechanism.num_features
        else:
            raise ReconstructionError(
                "features with more than two values cannot be reconstructed from reports of "
                f"{type(mechanism).__name__}: use GRRFS or JointGRR"
            )
        rate = float(mechanism.answering_rate)
        return cls(codes=codes, reporting=perturbed.has_features, channels=channels, answering_rate=rate)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Entries of `codes` that are randomized values, `[nodes, features]`."""
        answered: NDArray[np.bool_] = self.codes != NOT_ASKED
        return answered & self.reporting[:, None]

    def select_features(self, features: NDArray[np.int64] | slice) -> ReportCodes:
        """Return the codes of some features, in the order given."""
        chosen = range(len(self.channels))[features] if isinstance(features, slice) else features
        return ReportCodes(
            codes=self.codes[:, features],
            reporting=self.reporting,
            channels=tuple(self.channels[i] for i in chosen),
            answering_rate=self.answering_rate,
        )


def _is_binary(mechanism: MultiBit, perturbed: PerturbedGraph) -> bool:
    """Return whether all features have the values 0 and 1 and the range 0 to 1.

    Multi-bit is a symmetric channel only at the two ends of a range.
    """
    sizes = {*zip(mechanism.lower, mechanism.upper, perturbed.schema.domain_sizes, strict=True)}
    return sizes == {(0.0, 1.0, 2)}


def _signs_as_codes(signs: NDArray[Any]) -> NDArray[np.int8]:
    return np.where(signs == 0, NOT_ASKED, signs > 0).astype(np.int8)
