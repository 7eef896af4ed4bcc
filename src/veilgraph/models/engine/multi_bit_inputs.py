"""Methods whose network reads multi-bit feature reports."""

from __future__ import annotations

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import Mechanism, MultiBit


class ReadsMultiBit:
    """A method that needs its features by the multi-bit mechanism."""

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Return that the method needs multi-bit reports, unless the features are collected by multi-bit."""
        return None if _multi_bit(features) else "multi-bit feature reports"

    @classmethod
    def multi_bit_mechanism(cls, perturbed: PerturbedGraph) -> MultiBit:
        """Return the mechanism of the feature reports; raise FitError if it is another one."""
        mechanism = perturbed.feature_mechanism
        if (multi_bit := _multi_bit(mechanism)) is None:
            raise FitError(f"{cls.__name__} needs multi-bit reports, not those of {type(mechanism).__name__}")
        return multi_bit


def _multi_bit(features: Mechanism | None) -> MultiBit | None:
    """Return the mechanism of features if its reports are the bits that the method is defined for."""
    return features if isinstance(features, MultiBit) else None
