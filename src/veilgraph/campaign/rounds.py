"""A campaign that asks everything again in each of several rounds, and randomizes the answers by L-GRR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veilgraph.campaign.asked import epsilon_text
from veilgraph.campaign.asked_words import Exposure
from veilgraph.campaign.once import Once, OnceWords
from veilgraph.errors import CampaignError, ReportError
from veilgraph.privacy.epsilon import HistoryRelation
from veilgraph.privacy.mechanisms import LongitudinalFeatures, RoundEvidence
from veilgraph.privacy.mechanisms.longitudinal_grr import MAX_ROUNDS
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import expect_object, expect_whole

_MAX_SIZES = 16


@dataclass(frozen=True, kw_only=True)
class Rounds(Once):
    """Features, a label or both, asked of each person again in each round."""

    key = "rounds"
    report_keys = Once.report_keys | {"round"}
    first_round = 1
    asks_one_report = False

    feature_mechanism: LongitudinalFeatures | None = None
    label_mechanism: RoundEvidence | None = None

    def _check_mechanisms(self) -> None:
        features = self.feature_mechanism
        if features is not None and len(features.series) > _MAX_SIZES:
            raise CampaignError(
                f"the features of a series have {len(features.series)} different numbers of values, and a device "
                f"checks at most {_MAX_SIZES}: give columns the same number of values or bins"
            )
        super()._check_mechanisms()

    @property
    def number(self) -> int:
        """Number of rounds."""
        return self._repeated.rounds

    @property
    def _repeated(self) -> LongitudinalFeatures | RoundEvidence:
        return next(part for part in (self.feature_mechanism, self.label_mechanism) if part is not None)

    @classmethod
    def _mechanisms(cls, bound: Mapping[str, Any], schema: FeatureSchema) -> dict[str, Any]:
        features, label = bound["features"], bound["label"]
        asked = set() if features is None else {"features"}
        rounds = expect_object(bound["rounds"], {"count", "values", "epsilon", "table", "guarantee"} | asked, "rounds")
        expect_whole(rounds["count"], "rounds.count", 1, MAX_ROUNDS)
        expect_whole(rounds["values"], "rounds.values", 1, 2**53 - 1)
        read: dict[str, Any] = {}
        if features is not None:
            expect_object(rounds["features"], {"epsilon", "tables"}, "rounds.features")
            read["feature_mechanism"] = LongitudinalFeatures.read_series(features, schema.domain_sizes, rounds)
        if label is not None:
            read["label_mechanism"] = RoundEvidence.read_series(label, schema.num_classes, rounds)
        return read

    def _check_stated(self, bound: Mapping[str, Any]) -> None:
        """Refuse rounds whose integers or epsilons are not those that follow from the schema and the budget."""
        stated, derived = bound["rounds"], self.bound["rounds"]
        if stated["table"] != derived["table"] or stated.get("features") != derived.get("features"):
            raise CampaignError("the tables of the rounds do not hold the integers that their epsilons give")
        if stated["guarantee"] != derived["guarantee"]:
            raise CampaignError("rounds.guarantee is not what the tables give; do not answer it")
        super()._check_stated(bound)

    @property
    def bound(self) -> dict[str, Any]:
        """Part of the document that reports are bound to, as JSON values."""
        guarantee, features, label = self.guarantee, self.feature_mechanism, self.label_mechanism
        rounds = {
            "count": self.number,
            "values": self._repeated.values,
            "epsilon": None,
            "table": None,
            "guarantee": {relation.key: epsilon_text(guarantee.epsilon(relation)) for relation in HistoryRelation},
            **({} if label is None else label.round_document),
            **({} if features is None else {"features": features.round_document}),
        }
        return super().bound | {"rounds": rounds}

    @property
    def words(self) -> RoundsWords:
        """What people read about the questions and the guarantee."""
        return RoundsWords(self)

    @property
    def report_parts(self) -> dict[str, dict[str, Any]]:
        """JSON schema of each part of a report, besides campaign and node; a part that is not collected is null."""
        return super().report_parts | {"round": {"type": "integer", "minimum": 1, "maximum": self.number}}

    @property
    def longest_report(self) -> dict[str, Any]:
        """Parts of a report that no other one is longer than, as JSON values."""
        return super().longest_report | {"round": self.number}

    def read_report(self, document: Mapping[str, Any], node: str) -> dict[str, Any]:
        """Return the parts of a report about a node, checked, under the names that `Report` has for them."""
        read, number = super().read_report(document, node), document["round"]
        if type(number) is not int or not 1 <= number <= self.number:
            raise ReportError(f"round: it must be a whole number from 1 to {self.number}")
        return read | {"number": number}

    @property
    def stored_number(self) -> int | None:
        """Number under which a store keeps the reports: they have several."""
        return None

    def number_now(self, open_round: int | None) -> int | None:
        """Return the number under which a store keeps the reports that are asked for now; None between two rounds."""
        return open_round

    def check_round(self, open_round: int | None) -> None:
        """Refuse the number of an open round that this campaign does not have."""
        if open_round is not None:
            expect_whole(open_round, "round", 1, self.number)

    def is_round_open(self, number: int | None, open_round: int | None) -> bool:
        """Return whether reports of a round are accepted, if the last one that was opened is `open_round`."""
        return (number or 0) <= (open_round or 0)


class RoundsWords(OnceWords):
    """Words of a campaign that asks in rounds."""

    asked: Rounds

    @property
    def all_reports(self) -> str:
        """What the guarantee is about."""
        return f"All {self.asked.number} reports together"

    @property
    def all_told(self) -> str:
        """Key of the phrase that names all reports to participants."""
        return "level.rounds"

    @property
    def told(self) -> list[tuple[str, Mapping[str, int]]]:
        """Keys and values of the phrases that participants read after the figures."""
        return [("rounds", {"count": self.asked.number}), *super().told]

    @property
    def guarantee_in_brief(self) -> list[str]:
        """Those sentences about the guarantee that are said when a collection begins: one relation is not enough."""
        return self.guarantee

    def open_round(self, number: int | None) -> list[str]:
        """Say which round is open; nothing between two rounds."""
        return [] if number is None else [f"Round {number} of {self.asked.number} is open."]

    def exposures(self, label: str) -> list[Exposure]:
        """Return upper bounds of what a person reveals: by all reports, by their parts, and by one answer."""
        part, told = f"The answers to “{label}”, if they never change", "level.unchanged"
        if self.asked.feature_mechanism is not None:
            part, told = "All answers of all rounds, if none of them ever changes", "level.unchanged.all"
        unchanged = self.whole.epsilon(HistoryRelation.UNCHANGED)
        return [*super().exposures(label), Exposure.of(part, unchanged, self.whole.unchanged_pairs, told)]
