"""Several processes compute the same as one, for every method, mask and number of parts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.distributed_cases import SPLIT, Watched, cases, perturbed
from tests.support.partition import Partition
from tests.support.torchrun import forked
from veilgraph.models import RGNN
from veilgraph.models.engine.attention import HEADS
from veilgraph.models.engine.backbones import HIDDEN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, 4])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    out = tmp_path_factory.mktemp("spread") / "found.npz"
    started = forked(request.param, "tests.support.distributed_cases", out)
    said, _ = started.communicate(timeout=120)
    assert started.returncode == 0, said
    return dict(np.load(out))


@pytest.mark.parametrize("name", cases())
def test_several_processes_compute_the_same_as_one(name: str, found: dict[str, np.ndarray]) -> None:
    method, collection = cases()[name]
    method.fit(perturbed(*collection), SPLIT)
    # Sums over nodes have another order: 1e-7 of a gradient, which a dozen steps of Adam amplify a little.
    for key, expected in {
        "loss": np.array(method.curve_.train_loss),
        "score": np.array(method.curve_.validation_score),
        "probabilities": method.predict_proba(),
    }.items():
        np.testing.assert_allclose(found[f"{name}: {key}"], expected, rtol=0, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", cases())
def test_gradients_are_those_of_one_process_and_the_same_in_all(name: str, found: dict[str, np.ndarray]) -> None:
    """Adam hardly depends on a factor, so that a mean instead of the sum would not show in the results."""
    method, collection = cases()[name]
    with Watched() as alone:
        method.fit(perturbed(*collection), SPLIT)
    together, expected = found[f"{name}: gradients"], np.concatenate([each.numpy() for each in alone.gradients])
    assert (together == together[0]).all()
    # The first gradients are of equal weights; later ones differ by rounding, which a dozen steps amplify a little.
    scale = np.abs(expected).max()
    np.testing.assert_allclose(together[0][0], expected[0], rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(together[0], expected, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("name", cases())
def test_traffic_follows_the_formula(name: str, found: dict[str, np.ndarray]) -> None:
    """docs/explanation/scaling.md: 4 bytes for each row at the boundary, each column and each product."""
    method, (everyone, joint) = cases()[name]
    reports = perturbed(everyone, joint)
    columns, classes = reports.schema.num_features, reports.schema.num_classes  # all features are binary
    widths = columns  # of the first layer
    if isinstance(method, RGNN):
        widths += method.hops[0] * (columns + (not everyone)) + method.hops[1] * classes
    # Attention exchanges hidden units in 64 bits.
    exchanged = 2 * HIDDEN * HEADS if method.backbone == "gat" else classes
    widths += exchanged * (method.epochs * (2 if method.dropout else 1) + 2)
    part = Partition(reports.graph, int(found["processes"]))[0]
    # A product needs the same halo backward; attention gets the gradients of the rows that it sent.
    backward = len(part.send_rows) if method.backbone == "gat" else part.halo_size
    assert found[f"{name}: traffic"] == 4 * (part.halo_size * widths + backward * exchanged * method.epochs)
