"""The epsilons that a campaign's document states, as text, and how far they may be from what its integers give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilgraph.campaign.strict_json import expect_number, expect_object, number_text
from veilgraph.errors import CampaignError
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import state_epsilon

# Relative above 1, as in both clients. Documents of earlier versions state totals that are rounded to nearest.
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class StatedGuarantee:
    """Epsilons of a document, each written as the shortest text of a double.

    Attributes:
        features: epsilon of the features, user level (any two records).
        label: epsilon of the label, user level (any two records).
        total: epsilon of the whole report, user level (any two records).
        attribute_level: epsilon of each feature, for two records that differ in this feature only.
    """

    features: str
    label: str
    total: str
    attribute_level: tuple[str, ...]

    @classmethod
    def of(cls, guarantee: Guarantee) -> StatedGuarantee:
        """Write the epsilons of a guarantee; no text is below its epsilon."""
        levels = guarantee.features.attribute_level if guarantee.features else ()
        return cls(
            features=_text(guarantee.features_user_level),
            label=_text(guarantee.label_user_level),
            total=_text(guarantee.total_user_level),
            attribute_level=tuple(map(_text, levels)),
        )

    @classmethod
    def parse(cls, stated: object) -> StatedGuarantee:
        """Read what a document states."""
        parts = expect_object(stated, {"user_level", "attribute_level"}, "guarantee")
        users = expect_object(parts["user_level"], {"features", "label", "total"}, "guarantee.user_level")
        levels = parts["attribute_level"]
        if not isinstance(levels, list):
            raise CampaignError("guarantee.attribute_level must be a list")
        texts = {key: _epsilon_text(text) for key, text in users.items()}
        return cls(**texts, attribute_level=tuple(map(_epsilon_text, levels)))

    def check(self, guarantee: Guarantee) -> None:
        """Refuse epsilons that differ from `guarantee` by more than a billionth."""
        derived = StatedGuarantee.of(guarantee)
        stated = [self.features, self.label, self.total, *self.attribute_level]
        exact = [derived.features, derived.label, derived.total, *derived.attribute_level]
        if len(stated) != len(exact) or not all(map(_agree, map(float, stated), map(float, exact))):
            raise CampaignError(
                "the stated guarantee is not what the tables give: "
                f"user level (any two records) {derived.total} in total; do not answer it"
            )

    @property
    def document(self) -> dict[str, Any]:
        """The epsilons as JSON values."""
        return {
            "user_level": {"features": self.features, "label": self.label, "total": self.total},
            "attribute_level": list(self.attribute_level),
        }


def _text(epsilon: float) -> str:
    return number_text(state_epsilon(epsilon))


def _epsilon_text(value: object) -> str:
    number = expect_number(value, "an epsilon of the guarantee")
    if number_text(number) != value:
        raise CampaignError(f"an epsilon of the guarantee is not written in its canonical form, {number_text(number)}")
    return number_text(number)


def _agree(stated: float, exact: float) -> bool:
    return abs(stated - exact) <= _TOLERANCE * max(1.0, exact)
