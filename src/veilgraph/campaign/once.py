"""A campaign that asks each person once, about features, a label or both, on a public graph."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from veilgraph.campaign.asked import (
    Asked,
    FeatureMechanism,
    about_document,
    epsilon_text,
    guarantee_document,
    read_about,
)
from veilgraph.campaign.asked_words import Exposure, Words
from veilgraph.errors import CampaignError, ReportError
from veilgraph.privacy.accounting import Guarantee, Released, guarantee_of
from veilgraph.privacy.epsilon import NeighbourRelation
from veilgraph.privacy.mechanisms.registry import FEATURE_FORMS, LABEL_FORMS
from veilgraph.privacy.mechanisms.wire import chance_text, find_form
from veilgraph.privacy.plain_text import counted, quote
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import canonical_json

FORMAT = 3
"""Format of all documents except waves about private neighbours."""

# Limits within which a phone's browser checks the attribute-level guarantee in seconds.
_MAX_FEATURES = 2**14
_MAX_STEPS = 1_000_000

_NONCE_BYTES = 16
_NONCE = re.compile(rf"[0-9a-f]{{{2 * _NONCE_BYTES}}}")


@dataclass(frozen=True, kw_only=True)
class Once(Asked):
    """Features, a label or both, asked of each person once.

    Args:
        nonce: 128 random bits in hexadecimal digits, which make the id unique.
    """

    format = FORMAT
    key = "nonce"
    bound_keys = frozenset({"format", "schema", "features", "label", "guarantee", "graph", "nonce", "rounds"})
    report_keys = frozenset({"features", "label"})

    nonce: str

    def __post_init__(self) -> None:
        if self.feature_mechanism is None and self.label_mechanism is None:
            raise CampaignError(
                "the campaign collects nothing: give a budget for the features, for the label, or for both"
            )
        super().__post_init__()
        if not (isinstance(self.nonce, str) and _NONCE.fullmatch(self.nonce)):
            raise CampaignError(f"nonce must be {2 * _NONCE_BYTES} hexadecimal digits: leave it out, and it is drawn")
        self._check_mechanisms()

    def _check_mechanisms(self) -> None:
        features, label = self.feature_mechanism, self.label_mechanism
        if features is not None:
            if features.domain_sizes != self.schema.domain_sizes:
                raise CampaignError("the feature mechanism has other domain sizes than the schema")
            check_device_limits(features)
            _check_finite(self.guarantee.features_user_level, "epsilon_x")
        if label is not None:
            _check_finite(label.epsilon, "epsilon_y")
            if label.domain_size != self.schema.num_classes:
                raise CampaignError(
                    f"the label mechanism is for {label.domain_size} classes, the schema has {self.schema.num_classes}"
                )

    @classmethod
    def parse(cls, bound: Mapping[str, Any]) -> Self:
        """Read the bound part of a document; refuse integers or epsilons that do not follow from each other."""
        about = read_about(bound)
        made = cls(**about, **cls._mechanisms(bound, about["schema"]), nonce=bound["nonce"])
        made._check_stated(bound)
        return made

    @classmethod
    def _mechanisms(cls, bound: Mapping[str, Any], schema: FeatureSchema) -> dict[str, Any]:
        features, label = bound["features"], bound["label"]
        sizes, classes = schema.domain_sizes, schema.num_classes
        read: dict[str, Any] = {}
        if features is not None:
            form = find_form(features, FEATURE_FORMS, "features")
            read["feature_mechanism"] = form.read(features, "features", sizes)
        if label is not None:
            read["label_mechanism"] = find_form(label, LABEL_FORMS, "label").read(label, "label", classes)
        return read

    def _check_stated(self, bound: Mapping[str, Any]) -> None:
        """Refuse what a document states besides the mechanisms, if it does not follow from them."""
        if bound["guarantee"] != self.bound["guarantee"]:
            raise CampaignError(
                "the stated guarantee is not what the tables give: user level (any two records) "
                f"{epsilon_text(self.guarantee.total_user_level)} in total; do not answer it"
            )

    @property
    def bound(self) -> dict[str, Any]:
        """Part of the document that reports are bound to, as JSON values."""
        return {
            **about_document(self),
            "features": None if self.feature_mechanism is None else self.feature_mechanism.document,
            "label": None if self.label_mechanism is None else self.label_mechanism.document,
            "guarantee": guarantee_document(self.guarantee),
            "nonce": self.nonce,
            "rounds": None,
        }

    @cached_property
    def guarantee(self) -> Guarantee:
        """Upper bound of what all reports of a person reveal, computed from the integers."""
        return guarantee_of(self.feature_mechanism, self.label_mechanism)

    @property
    def words(self) -> OnceWords:
        """What people read about the questions and the guarantee."""
        return OnceWords(self)

    @property
    def report_parts(self) -> dict[str, dict[str, Any]]:
        """JSON schema of each part of a report, besides campaign and node; a part that is not collected is null."""
        parts = {"features": self.feature_mechanism, "label": self.label_mechanism}
        return {
            part: {"type": "null"} if form is None else {"anyOf": [form.report_schema, {"type": "null"}]}
            for part, form in parts.items()
        }

    @property
    def longest_report(self) -> dict[str, Any]:
        """Parts of a report that no other one is longer than, as JSON values."""
        features, label = self.feature_mechanism, self.label_mechanism
        return {
            "features": None if features is None else features.longest_report,
            "label": None if label is None else _longer(label.longest_report, None),
        }

    def read_report(self, document: Mapping[str, Any], node: str) -> dict[str, Any]:
        """Return the parts of a report about a node, checked, under the names that `Report` has for them."""
        features, label = document["features"], document["label"]
        if features is None and label is None:
            raise ReportError("the report is empty: it needs features, a label or both")
        return {
            "features": _checked(features, self.feature_mechanism, "features", self.schema.feature_names),
            "label": _checked(label, self.label_mechanism, "label", "label"),
        }


class OnceWords(Words):
    """Words of a campaign whose document asks for features, a label or both.

    Args:
        asked: what it asks.
    """

    def __init__(self, asked: Once) -> None:
        self.asked = asked

    @property
    def all_reports(self) -> str:
        """What the guarantee is about."""
        return "The whole report"

    @property
    def all_told(self) -> str:
        """Key of the phrase that names all reports to participants."""
        features, label = self.asked.feature_mechanism, self.asked.label_mechanism
        questions = (0 if features is None else len(self.asked.schema.columns)) + (label is not None)
        return "level.only" if questions == 1 else "level.all"

    @property
    def whole(self) -> Guarantee:
        """The guarantee that the words are about."""
        return self.asked.guarantee

    @property
    def methods(self) -> list[str]:
        """Sentences that say what is asked, and how a device randomizes it."""
        features, label = self.asked.feature_mechanism, self.asked.label_mechanism
        said = []
        if features is not None:
            said += [
                features.method_in_words(counted(features.num_features, "feature")),
                "Each feature may be left out: a random answer takes its place on the device before that, and nobody "
                "can tell.",
            ]
        if label is not None:
            said.append(label.method_in_words("the label"))
            if features is not None:
                said.append("The label may be left out, too, which is visible.")
        return said

    @property
    def questions(self) -> list[str]:
        """Each question with its answers, in the words of the schema."""
        asked, said = self.asked, []
        if (features := asked.feature_mechanism) is not None:
            sizes = features.domain_sizes
            chances = {size: chance_text(features.picked_channel(sizes.index(size))) for size in set(sizes)}
            for name, codes in zip(asked.schema.feature_names, asked.schema.code_names, strict=True):
                said.append(f"If picked, true with {chances[len(codes)]}: {_question_text(name, codes)}")
        if asked.label_mechanism is not None:
            said.append(f"Label: {_question_text(asked.label_name, asked.schema.classes)}")
        return said

    def page_methods(self, label: str) -> list[str]:
        """Return sentences of the page that say how a device randomizes; `label` is the label's question in words."""
        features, response = self.asked.feature_mechanism, self.asked.label_mechanism
        said = [] if response is None else [response.method_in_words(f"“{label}”")]
        if features is not None:
            questions = counted(features.num_features, "question" if response is None else "other question")
            said.append(features.method_in_words(questions))
        return said

    def exposures(self, label: str) -> list[Exposure]:
        """Return upper bounds of what a person reveals: by all reports, by their parts, and by one answer."""
        guarantee = self.whole
        user = f"{NeighbourRelation.USER_LEVEL.title} ({guarantee.user_level_pairs})"
        found = [Exposure.of(self.all_reports, guarantee.total_user_level, user, self.all_told)]
        if guarantee.releases(Released.LABEL) and guarantee.attribute_levels:
            found.append(Exposure.of(f"The answer to “{label}” alone", guarantee.label_user_level, user, "level.last"))
            found.append(Exposure.of("All other answers together", guarantee.features_user_level, user, "level.rest"))
        if guarantee.attribute_levels:
            part, told = "One of the other answers, for someone who knows all the rest", "level.other"
            if not guarantee.releases(Released.LABEL):
                part, told = "One answer, for someone who knows all the rest", "level.each"
            level = f"{NeighbourRelation.ATTRIBUTE_LEVEL.title} ({guarantee.attribute_level_pairs})"
            found.append(Exposure.of(part, max(guarantee.attribute_levels), level, told))
        return found


def new_nonce() -> str:
    """Return 128 random bits of the operating system, in hexadecimal digits."""
    return secrets.token_hex(_NONCE_BYTES)


def check_device_limits(features: FeatureMechanism) -> None:
    """Raise CampaignError if a phone would take too long to check the guarantee of a feature mechanism."""
    steps = features.sampled * (features.num_features - features.sampled)
    if features.num_features > _MAX_FEATURES or steps > _MAX_STEPS:
        raise CampaignError(
            f"{features.sampled} of {features.num_features} features cannot be checked on a device: "
            f"have at most {_MAX_FEATURES} features and sampled * (features - sampled) <= {_MAX_STEPS}; "
            "merge columns with 'group' or sample fewer"
        )


def _check_finite(epsilon: float, name: str) -> None:
    if not math.isfinite(epsilon):
        raise CampaignError(f"{name} is not finite: people's reports are never collected without privacy")


def _question_text(name: str, answers: Sequence[str]) -> str:
    return f"{quote(name)}: {', '.join(map(quote, answers))}"


def _checked(value: object, mechanism: Any, part: str, named: str | Sequence[str]) -> Any:
    """Return a part of a report, checked by its mechanism; None if it was left out."""
    if value is None:
        return None
    if mechanism is None:
        raise ReportError(f"{part}: the campaign collects none; send null")
    return mechanism.check_report(value, named)


def _longer(one: object, other: object) -> Any:
    return max(one, other, key=lambda value: len(canonical_json(value)))
