"""The epsilons that a campaign document states, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilgraph.errors import CampaignError
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.strict_json import expect_number, expect_object, number_text

# Relative above 1, as in both clients: other implementations round the last digit of a total otherwise.
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class StatedGuarantee:
    """Epsilons that a document states, each written as the shortest text of a double.

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
        return cls(
            features=epsilon_text(guarantee.features_user_level),
            label=epsilon_text(guarantee.label_user_level),
            total=epsilon_text(guarantee.total_user_level),
            attribute_level=tuple(map(epsilon_text, guarantee.attribute_levels)),
        )

    @classmethod
    def parse(cls, stated: object) -> StatedGuarantee:
        """Read what a document states."""
        parts = expect_object(stated, {"user_level", "attribute_level"}, "guarantee")
        users = expect_object(parts["user_level"], {"features", "label", "total"}, "guarantee.user_level")
        levels = parts["attribute_level"]
        if not isinstance(levels, list):
            raise CampaignError("guarantee.attribute_level must be a list")
        texts = {key: _read_epsilon(text) for key, text in users.items()}
        return cls(**texts, attribute_level=tuple(map(_read_epsilon, levels)))

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


def epsilon_text(epsilon: float) -> str:
    """Write an epsilon as the shortest text of a double that is not below it."""
    return number_text(state_epsilon(epsilon))


def _read_epsilon(value: object) -> str:
    number = expect_number(value, "an epsilon of the guarantee")
    if number_text(number) != value:
        raise CampaignError(f"an epsilon of the guarantee is not written in its canonical form, {number_text(number)}")
    return number_text(number)


def _agree(stated: float, exact: float) -> bool:
    return abs(stated - exact) <= _TOLERANCE * max(1.0, exact)
