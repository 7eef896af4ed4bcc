"""What the reports to a campaign may reveal, and how often everything is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilgraph.campaign.once import Once
from veilgraph.campaign.rounds import Rounds
from veilgraph.errors import CampaignError
from veilgraph.privacy.budget import ONCE, RoundBudget
from veilgraph.privacy.mechanisms import GRRFS, LongitudinalFeatures, RoundEvidence
from veilgraph.privacy.mechanisms.registry import LabelOnce, best_label_mechanism
from veilgraph.privacy.schema import FeatureSchema


@dataclass(frozen=True, kw_only=True)
class CampaignBudget:
    """Budget of a campaign; without `epsilon_x` it collects no features, without `epsilon_y` no label.

    Features are randomized by GRR-FS, the label by the mechanism whose reports carry most information. In rounds,
    everything is randomized by L-GRR; then `epsilon_x` and `epsilon_y` belong to permanent answers.

    Args:
        epsilon_x: budget of each sampled feature.
        sampled: number of features that a device picks; more than the schema has means all of them.
        epsilon_y: budget of the label.
        rounds: how often everything is asked, and the budgets of a round's report; default: once.
    """

    epsilon_x: float | None = None
    sampled: int | None = None
    epsilon_y: float | None = None
    rounds: RoundBudget = ONCE

    def __post_init__(self) -> None:
        if (self.epsilon_x is None) != (self.sampled is None):
            raise CampaignError("epsilon_x and sampled belong together: give both, or neither to collect no features")

    def asked(self, *, schema: FeatureSchema, **about: Any) -> Once:
        """Return the questions and mechanisms of a campaign with this budget.

        Args:
            schema: names and domains of the features and the label.
            about: other arguments of `Once`.
        """
        if self.epsilon_x is not None and not schema.num_features:
            raise CampaignError("the schema has no columns: leave epsilon_x and sampled out, or declare columns")
        if self.rounds.rounds is None:
            features, label = self._features(schema), self._label(schema)
            return Once(schema=schema, feature_mechanism=features, label_mechanism=label, **about)
        return self._rounds(schema, self.rounds.rounds, about)

    def _features(self, schema: FeatureSchema) -> GRRFS | None:
        if self.epsilon_x is None or self.sampled is None:
            return None
        return GRRFS(schema.domain_sizes, min(self.sampled, schema.num_features), float(self.epsilon_x))

    def _label(self, schema: FeatureSchema) -> LabelOnce | None:
        return None if self.epsilon_y is None else best_label_mechanism(schema.num_classes, float(self.epsilon_y))

    def _rounds(self, schema: FeatureSchema, number: int, about: dict[str, Any]) -> Rounds:
        features = label = None
        if self.epsilon_x is not None and self.sampled is not None:
            sampled, permanent = min(self.sampled, schema.num_features), float(self.epsilon_x)
            of_round = float(self.rounds.of_feature(permanent))
            values = self.rounds.values
            features = LongitudinalFeatures(schema.domain_sizes, sampled, permanent, of_round, number, values)
        if self.epsilon_y is not None:
            permanent = float(self.epsilon_y)
            of_round = float(self.rounds.of_label(permanent))
            label = RoundEvidence(schema.num_classes, permanent, of_round, number, self.rounds.values)
        return Rounds(schema=schema, feature_mechanism=features, label_mechanism=label, **about)
