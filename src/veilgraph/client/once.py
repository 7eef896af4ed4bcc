"""Questions about a record that are asked once: features, a label, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from veilgraph.client.epsilons import shown, slack
from veilgraph.client.mechanisms import JointFeatures, LabelTable, SampledFeatures, read_features, read_label
from veilgraph.client.published import PublishedFile
from veilgraph.client.reading import longer_text, read_number, read_object
from veilgraph.client.record import RecordCodes, withhold_details
from veilgraph.client.refusals import CampaignError
from veilgraph.client.schema import Schema
from veilgraph.client.series import Series, SeriesFeatures
from veilgraph.client.words import Answers, ReportedFeatures, ReportedLabel, Word, system_word, uniform_below

Features = SampledFeatures | JointFeatures | SeriesFeatures | None
Label = LabelTable | Series | None


@dataclass(frozen=True)
class RecordQuestions:
    """Questions about a record: features, a label, or both."""

    features: Features
    label: Label
    documents: ClassVar[tuple[str, ...]] = ()
    """Ids of earlier documents of a series about neighbours: none."""
    place: ClassVar[None] = None
    """Place in a series about neighbours: none."""
    files: ClassVar[Mapping[str, PublishedFile]] = {}
    """What is published beside the document: nothing."""

    @property
    def epsilon(self) -> Decimal:
        """Epsilon of all reports: user level, any two records (of rounds: histories), features and label together."""
        return _record_epsilon(self.features, self.label)

    @property
    def longest(self) -> dict[str, Any]:
        """The parts of a report that no other one is longer than, as text."""
        return {
            "features": None if self.features is None else self.features.longest,
            "label": None if self.label is None else longer_text(self.label.longest, None),
        }

    def fits(self, report: Mapping[str, Any]) -> bool:
        """Return whether a stored report is one of these questions."""
        parts = ((report.get("features"), self.features), (report.get("label"), self.label))
        return "answer" not in report and all(
            reported is None or (mechanism is not None and mechanism.fits(reported)) for reported, mechanism in parts
        )

    def about_a_record(self) -> Self:
        """Return the questions, because they are about a record."""
        return self

    def about_a_list(self) -> NoReturn:
        """Refuse a neighbour list as an answer."""
        raise CampaignError("the campaign does not ask about neighbours: answer it from a record")


@dataclass(frozen=True)
class Once(RecordQuestions):
    """Questions about a record that are asked once."""

    features: SampledFeatures | JointFeatures | None
    label: LabelTable | None

    @classmethod
    def read(cls, bound: Mapping[str, Any], schema: Schema) -> Once:
        """Read the questions; refuse tables that do not give every epsilon that the campaign states."""
        features = read_features(bound["features"], schema.sizes, ("grr_fs", "joint_grr"))
        label = read_label(bound["label"], len(schema.classes))
        check_record_guarantee(bound["guarantee"], features, label)
        return cls(features, label)

    def fits(self, report: Mapping[str, Any]) -> bool:
        """Return whether a stored report is one of these questions."""
        return "round" not in report and super().fits(report)

    def check_notice(self, opened: int | None) -> None:
        """Refuse a notice that opens a round."""
        if opened is not None:
            raise CampaignError("the campaign does not have the round that is open")

    def randomize(
        self, features: Answers | None, label: int | None, word: Word
    ) -> tuple[ReportedFeatures | None, ReportedLabel | None]:
        """Report codes: a code of each feature, None for one that is not asked; the code of a class, or of a set."""
        reported = None
        if features is not None and self.features is not None:
            pairs = zip(features, self.features.sizes, strict=True)
            values = tuple(uniform_below(size, word) if code is None else code for code, size in pairs)
            reported = self.features.report(values, word)
        return reported, None if label is None or self.label is None else self.label.report(label, word)

    def report(
        self, kept: Mapping[str, Any], codes: Callable[[], RecordCodes], memory: Path, opened: int | None
    ) -> dict[str, Any]:
        """Return the report: the one that is kept, or a new one from the codes of the record."""
        del memory, opened  # they are about rounds
        if "label" in kept:
            return dict(kept)
        features, label = withhold_details(lambda: self.randomize(*codes(), system_word))
        return {
            **kept,
            "features": None if features is None else list(features),
            "label": list(label) if isinstance(label, tuple) else label,
        }


def _record_epsilon(features: Features, label: Label) -> Decimal:
    with localcontext(prec=40):
        return sum((part.user_level for part in (features, label) if part is not None), Decimal(0))


def check_record_guarantee(stated: object, features: Features, label: Label) -> None:
    """Check every stated epsilon against the integers; refuse a campaign that collects nothing."""
    if features is None and label is None:
        raise CampaignError("the campaign collects nothing")
    parts = read_object(stated, "attribute_level user_level", "guarantee")
    users = read_object(parts["user_level"], "features label total", "guarantee.user_level")
    with localcontext(prec=40):
        exact = {
            "features": _record_epsilon(features, None),
            "label": _record_epsilon(None, label),
            "total": _record_epsilon(features, label),
        }
        attributes = features.attribute_levels if features else []
        if not isinstance(parts["attribute_level"], list) or len(parts["attribute_level"]) != len(attributes):
            raise CampaignError("guarantee.attribute_level must list one epsilon for each feature")
        pairs = [(users[key], exact[key]) for key in exact]
        pairs += zip(parts["attribute_level"], attributes, strict=True)
        for text, epsilon in pairs:
            if abs(Decimal(read_number(text, "an epsilon")) - epsilon) > slack(epsilon):
                raise CampaignError(
                    f"the campaign's tables do not give the guarantee that it states: a report would cost "
                    f"epsilon {shown(exact['total'])} (user level, any two records)"
                )
