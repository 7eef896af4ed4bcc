"""The mechanisms that can randomize features, each made from a schema and a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.base import Mechanism
from veilgraph.privacy.mechanisms.grr_fs import GRRFS
from veilgraph.privacy.mechanisms.joint_grr import JointGRR
from veilgraph.privacy.mechanisms.multi_bit import MultiBit
from veilgraph.privacy.schema import FeatureSchema

LPGNN_BEST_EPSILON = 2.18

FeatureRandomizer = Callable[[FeatureSchema, PrivacyBudget], Mechanism]
"""Which mechanism randomizes the features, given what is declared and what may be spent."""


def grr_fs(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """The paper's mechanism."""
    return GRRFS(schema.domain_sizes, sampled=budget.sampled, epsilon=budget.epsilon_x)


def grr_on_all(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """GRR on every feature at the same user-level epsilon m * epsilon_x: the best m for GRR-FS."""
    total = budget.sampled * budget.epsilon_x
    return GRRFS(schema.domain_sizes, sampled=schema.num_features, epsilon=total / schema.num_features)


def joint_grr_best(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """Joint GRR at the same user-level epsilon m * epsilon_x, with the m whose estimates vary least."""
    return JointGRR.best(schema.domain_sizes, budget.sampled * budget.epsilon_x)


def multi_bit(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """LPGNN's mechanism with the same m and the same epsilon_x per sampled feature; codes count as numbers."""
    lower, upper = (0.0,) * schema.num_features, tuple(size - 1.0 for size in schema.domain_sizes)
    return MultiBit(lower, upper, sampled=budget.sampled, epsilon=budget.epsilon_x)


def multi_bit_best(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """LPGNN's mechanism at the same user-level epsilon m * epsilon_x, with the m that its analysis prefers.

    The variance of an estimate is least where each sampled feature has a budget of about 2.18.
    """
    total = budget.sampled * budget.epsilon_x
    sampled = max(1, min(schema.num_features, round(total / LPGNN_BEST_EPSILON)))
    return multi_bit(schema, replace(budget, sampled=sampled, epsilon_x=total / sampled))
