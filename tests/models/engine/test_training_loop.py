"""Training selects the first epoch with the best score, for each replica separately."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.models.test_conformance import PERTURBED, SPLIT
from tests.support.uncalibrated import uncalibrated
from veilgraph.errors import FitError
from veilgraph.models import RGNN
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.models.engine.training_loop import LearningCurve, train

NAN = math.nan


class Counters:
    """Networks whose only weight, and logit, is the number of steps they took."""

    def __init__(self, replicas: int) -> None:
        self.weights = torch.zeros(replicas, requires_grad=True)
        self.best = torch.full((replicas,), -1.0)
        self.evaluations = 0

    @property
    def replicas(self) -> int:
        return len(self.weights)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def generators(self) -> None:
        return

    def _logits(self) -> Tensor:
        return self.weights.view(-1, 1, 1)

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        return self._logits(), self.score_logits()

    def score_logits(self) -> Tensor:
        self.evaluations += 1
        return self._logits().detach().clone()

    def prediction_logits(self) -> Tensor:
        raise AssertionError("training predicts nothing")

    def step(self) -> None:
        assert self.weights.grad is not None, "stepped before backward"
        self.weights.grad = None
        with torch.no_grad():
            self.weights += 1

    def keep_best(self, replicas: Tensor) -> None:
        self.best = torch.where(replicas, self.weights.detach(), self.best)

    def restore_best(self) -> None:
        with torch.no_grad():
            self.weights.copy_(self.best)

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights.detach(), "best": self.best}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        return [{"steps": each} for each in self.weights.detach()]

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        raise NotImplementedError


def table_score(scores: list[list[float]]) -> Callable[[Tensor], Tensor]:
    """Return a score function that looks up the number of steps in a table."""
    table = torch.tensor(scores)
    return lambda logits: table.gather(1, (logits[:, 0, :].long() - 1).clamp(min=0)).squeeze(1)


def trained(scores: list[list[float]]) -> tuple[Counters, list[LearningCurve]]:
    networks = Counters(len(scores))
    training = train(
        networks, loss=lambda logits: 10 * logits[:, 0, 0], score=table_score(scores), epochs=len(scores[0])
    )
    return networks, training.curves()


TABLES = st.integers(1, 6).flatmap(
    lambda epochs: st.lists(
        st.lists(st.sampled_from([-3.0, -2.0, -1.0]), min_size=epochs, max_size=epochs), min_size=1, max_size=4
    )
)


@given(TABLES)
def test_the_first_best_epoch_is_selected_and_its_weights_are_kept(scores: list[list[float]]) -> None:
    networks, curves = trained(scores)
    assert [curve.validation_score for curve in curves] == scores
    # The loss of an epoch is that of the weights before its step, the score that of the weights after it.
    assert all(curve.train_loss == [10.0 * epoch for epoch in range(len(scores[0]))] for curve in curves)
    for row, curve, weights in zip(scores, curves, networks.weights_by_replica(), strict=True):
        assert curve.selected_epoch == row.index(max(row))
        assert weights["steps"] == curve.selected_epoch + 1
    assert networks.evaluations == len(scores[0]) + 1  # one pass serves the loss and the score


@pytest.mark.parametrize(
    ("row", "selected"),
    [([NAN, -2.0, -1.0], 2), ([-2.0, NAN, -3.0], 0), ([-2.0, NAN, -1.0], 2), ([NAN, -2.0, NAN], 1)],
)
def test_a_score_that_is_not_a_number_is_never_selected(row: list[float], selected: int) -> None:
    networks, curves = trained([row, [-1.0, -2.0, -3.0]])
    assert [curve.selected_epoch for curve in curves] == [selected, 0]
    assert networks.weights.tolist() == [selected + 1, 1]


def test_training_without_a_valid_score_is_refused() -> None:
    with pytest.raises(FitError, match="training diverged"):
        trained([[NAN, NAN]])


@pytest.mark.parametrize("backbone", ["sage", "gat"])
def test_the_restored_weights_have_the_score_of_the_selected_epoch(backbone: str) -> None:
    # Large steps, so that the best epoch is not the last.
    method = RGNN(backbone=backbone, epochs=12, num_clusters=4, feature_hops=2, learning_rate=0.1, seed=1, label_hops=8)
    method.fit(PERTURBED, SPLIT)
    score = noisy_log_likelihood([PERTURBED], [SPLIT.validation & PERTURBED.has_label], torch.device("cpu"))
    for probabilities in (method.predict_proba(), method.predict_proba(PERTURBED)):
        own = torch.from_numpy(uncalibrated(method, probabilities)).float()
        found = score(own.log().T.unsqueeze(0)).item()
        assert found == pytest.approx(max(method.curve_.validation_score), abs=1e-5)
    assert method.curve_.selected_epoch < 11


def test_a_shorter_training_is_the_beginning_of_a_longer_one() -> None:
    short, long = (
        RGNN(epochs=epochs, num_clusters=4, feature_hops=16, label_hops=8).fit(PERTURBED, SPLIT).curve_
        for epochs in (3, 8)
    )
    assert long.train_loss[:3] == short.train_loss
    assert long.validation_score[:3] == short.validation_score
