"""What reports say, feature by feature, whichever mechanism made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import GRRFS, NOT_ASKED, JointGRR, MultiBit, SymmetricChannel


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Randomized answers to some of the features.

    Attributes:
        codes: an answer for each node and feature, NOT_ASKED where there is none.
        reporting: who sent anything.
        channels: of an answer, for each feature.
        rate: the share of reporting people who are asked about a given feature, by the mechanism's own chance.
    """

    codes: NDArray[Any]
    reporting: NDArray[np.bool_]
    channels: tuple[SymmetricChannel, ...]
    rate: float

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Where there is an answer."""
        answered: NDArray[np.bool_] = self.codes != NOT_ASKED
        return answered & self.reporting[:, None]

    def about(self, features: NDArray[np.int64] | slice) -> Answers:
        """The answers about some features, in the order given."""
        chosen = range(len(self.channels))[features] if isinstance(features, slice) else features
        channels = tuple(self.channels[i] for i in chosen)
        return Answers(codes=self.codes[:, features], reporting=self.reporting, channels=channels, rate=self.rate)


def answers_of(perturbed: PerturbedGraph) -> Answers:
    """The answers in the reports; a mechanism whose reports are no codes of the schema is refused."""
    mechanism = perturbed.feature_mechanism
    if isinstance(mechanism, GRRFS | JointGRR):
        codes, rate = perturbed.features, mechanism.answering_rate
        # Features of equally many values have the same channel, whose exact fractions take a while.
        sizes = mechanism.domain_sizes
        by_size = {size: mechanism.channel(sizes.index(size)) for size in set(sizes)}
        channels = tuple(by_size[size] for size in sizes)
    elif isinstance(mechanism, MultiBit) and _is_binary(mechanism, perturbed):
        codes, rate = _signs_as_codes(perturbed.features), mechanism.answering_rate
        channels = (mechanism.sign_channel,) * mechanism.num_features
    else:
        raise ReconstructionError(
            f"features with more than two values cannot be reconstructed from reports of {type(mechanism).__name__}: "
            "use GRRFS or JointGRR"
        )
    return Answers(codes=codes, reporting=perturbed.has_features, channels=channels, rate=float(rate))


def _is_binary(mechanism: MultiBit, perturbed: PerturbedGraph) -> bool:
    """Only the ends of a range are randomized by a symmetric channel; 0 and 1 must be those ends."""
    sizes = {*zip(mechanism.lower, mechanism.upper, perturbed.schema.domain_sizes, strict=True)}
    return sizes == {(0.0, 1.0, 2)}


def _signs_as_codes(signs: NDArray[Any]) -> NDArray[np.int8]:
    return np.where(signs == 0, NOT_ASKED, signs > 0).astype(np.int8)
