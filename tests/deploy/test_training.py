"""A model from a store is the model from memory, and a stopped training continues."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.collected import NODES, Collected
from tests.support.command_words import words_of
from tests.support.trained import parameters_of, train_files, train_reports
from veilgraph.campaign.assemble import reports_of
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.deploy import GivenReports, Model, TrainingOptions, train
from veilgraph.deploy.held_out_labels import HeldOutLabels
from veilgraph.deploy.sources import split_reports
from veilgraph.deploy.training import contamination_facts
from veilgraph.deploy.training_options import method_for_campaign
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN, LabelVeil
from veilgraph.models.base import FitTask
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.mechanisms import GRR, LabelMechanism, SubsetSelection
from veilgraph.progress import Progress, Watch, no_progress, unwatched

PARAMETERS: dict[str, Any] = {"epochs": 15, "device": "cpu"}


def test_training_from_the_store_equals_training_from_memory(collected: Collected, trained: Path) -> None:
    from_memory = train_reports(collected.campaign, collected.perturbed, method="rgnn", **PARAMETERS).method
    from_store = Model.load(trained, device="cpu").method
    np.testing.assert_array_equal(from_store.predict_proba(), from_memory.predict_proba())
    # The truth is for the laboratory only; here it shows that something was learned at all.
    majority = np.bincount(collected.private.labels).max() / NODES
    test = ~collected.perturbed.has_label
    assert accuracy(from_store.predict(), collected.private, test) > majority


def test_every_method_gives_the_same_model_from_a_store_in_another_order_and_from_memory(
    case: tuple[str, Collected, Model], tmp_path: Path
) -> None:
    name, collected, in_memory = case
    options = parameters_of(name) | collected.files()
    from_store = train_files(
        collected.backwards, out=tmp_path / "model", method=name, device="cpu", card=False, **options
    )
    found, expected = (model.method.fitted_state() for model in (from_store, in_memory))
    assert found.values == expected.values
    assert {key: array.tobytes() for key, array in found.arrays.items()} == {
        key: array.tobytes() for key, array in expected.arrays.items()
    }
    loaded = Model.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.method.predict_proba(), in_memory.method.predict_proba())
    assert loaded.facts["method"] == name
    assert loaded.nodes == collected.perturbed.graph.names


def test_a_folder_holds_no_report_that_its_method_does_not_read(case: tuple[str, Collected, Model]) -> None:
    _, collected, model = case
    method = model.method
    kept = [report.features is not None for report in model.reports()]
    assert sum(kept) == (int(collected.perturbed.has_features.sum()) if method.uses_features else 0)
    assert model.facts["feature_reports"] == sum(kept)
    # What the predictions cost is what the folder holds.
    guarantee = collected.campaign.guarantee
    spent = guarantee.total_user_level if any(kept) else guarantee.label_user_level
    assert method.epsilon_spent(guarantee) == spent


def test_the_accuracy_estimate_comes_from_labels_that_took_no_part(collected: Collected) -> None:
    model = train_reports(collected.campaign, collected.perturbed, method="plain", hold_out=0.5, **PARAMETERS)
    reporting = {report.node for report in model.reports() if report.label is not None}
    seen, facts = np.array([name in reporting for name in collected.perturbed.graph.names]), model.facts
    assert facts["held_out"] == pytest.approx(facts["label_reports"] / 2, abs=1)
    assert int(seen.sum()) == facts["label_reports"] - facts["held_out"]
    held_out = collected.perturbed.has_label & ~seen
    for name, fitted in (("plain", model.method),):
        estimate = facts["estimated_accuracy"][name]
        true = accuracy(fitted.predict(), collected.private, held_out)
        # Four standard errors; the seed is fixed.
        assert abs(estimate["accuracy"] - true) < 4 * estimate["standard_error"]
    assert "structure_only" in facts["estimated_accuracy"]


@pytest.mark.parametrize("liars", [0.0, 0.2])
@pytest.mark.parametrize("mechanism", [GRR(7, 1.0), SubsetSelection(7, 0.5), SubsetSelection(7, 2.0, size=5)], ids=repr)
def test_the_estimated_accuracy_is_unbiased_with_the_stated_error_for_single_classes_and_for_sets(
    mechanism: LabelMechanism, liars: float
) -> None:
    people, draws, rng = 500, 400, np.random.default_rng(0)
    labels = rng.integers(0, 7, size=people)
    guess = np.where(np.arange(people) < 0.6 * people, labels, (labels + 1) % 7)
    target_3 = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    contamination = Contamination(share=liars, targets=target_3, set_size=mechanism.set_size)

    def reports() -> NDArray[np.bool_]:
        honest = mechanism.named(mechanism.randomize(labels, rng=rng))
        # Scores in random order, the target first: the greatest are the classes that a liar names.
        lies = (rng.random((people, 7)) + target_3).argsort(axis=1).argsort(axis=1) >= 7 - mechanism.set_size
        return np.where(rng.random((people, 1)) < liars, lies, honest)

    nodes, channel = np.arange(people), mechanism.channel
    estimates = [
        HeldOutLabels(nodes=nodes, named=reports(), channel=channel, control=guess).estimate_accuracy(
            guess, contamination if liars else None
        )
        for _ in range(draws)
    ]
    found = np.array([estimate["accuracy"] for estimate in estimates])
    stated = np.array([estimate["standard_error"] for estimate in estimates])
    # Four standard errors of the mean of all draws.
    assert abs(found.mean() - 0.6) < 4 * found.std() / np.sqrt(draws)
    # The stated variance is that of people drawn from a population: for fixed people it is too large by at most the
    # variance of a sample's accuracy, and of the share of lies that name the predicted class. A sample variance of 400
    # draws has a relative error of sqrt(2 / 399).
    agreeing_lies = np.array(contamination.named_shares)[guess].var() * (liars / (1 - liars) / float(channel.gain)) ** 2
    excess = (0.6 * 0.4 + agreeing_lies) / people
    assert np.mean(stated**2) - excess < found.var(ddof=1) * (1 + 4 * np.sqrt(2 / (draws - 1)))
    assert np.mean(stated**2) > found.var(ddof=1) * (1 - 4 * np.sqrt(2 / (draws - 1)))


def test_an_unknown_method_or_parameter_is_refused(collected: Collected) -> None:
    with pytest.raises(FitError, match="rgnn, plain"):
        method_for_campaign("lpgnn", collected.campaign, collected.perturbed.graph)
    for missing in ({"epochs": 3}, {"backbone": "gcn"}, {"label_hops": 2}):
        with pytest.raises(FitError, match=f"'veil' has no {next(iter(missing))}: leave it out"):
            method_for_campaign("veil", collected.campaign, collected.perturbed.graph, **missing)
    with pytest.raises(FitError, match="no num_clusters"):
        method_for_campaign("plain", collected.campaign, collected.perturbed.graph, num_clusters=4)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_labels_are_refused(collected: Collected, count: int) -> None:
    few = np.cumsum(collected.perturbed.has_label) <= count
    perturbed = replace(collected.perturbed, has_label=collected.perturbed.has_label & few)
    with pytest.raises(FitError, match=rf"sent {count} label report\(s\): training needs at least 2"):
        train_reports(collected.campaign, perturbed, device="cpu")


def test_an_interrupted_training_goes_on_and_other_reports_begin_anew(collected: Collected, tmp_path: Path) -> None:
    @contextmanager
    def interrupted(task: str) -> Iterator[Progress]:
        yield no_progress
        if task == "train":  # after the last epoch, before anything is saved
            raise KeyboardInterrupt

    def fitted(perturbed: PerturbedGraph, folder: Path | None, watch: Watch = unwatched) -> Model:
        source = GivenReports(campaign=collected.campaign, perturbed=perturbed)
        options = TrainingOptions(method="rgnn", parameters={"epochs": 25}, device="cpu", card=False)
        return train(source, options, out=folder, watch=watch)

    with pytest.raises(KeyboardInterrupt):
        fitted(collected.perturbed, tmp_path, interrupted)
    labels = (collected.perturbed.labels + 1) % collected.private.schema.num_classes
    others = shutil.copytree(tmp_path, tmp_path.with_name("others"))
    assert fitted(replace(collected.perturbed, labels=labels), others).facts["resumed_after_epochs"] == 0
    resumed, whole = fitted(collected.perturbed, tmp_path), fitted(collected.perturbed, None)
    assert resumed.facts["resumed_after_epochs"] == 20
    np.testing.assert_array_equal(resumed.method.predict_proba(), whole.method.predict_proba())


def test_training_prints_what_it_did_as_json(collected: Collected, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_of("train", **collected.files(), out=collected.folder / "other")[1:]
    assert main(["train", "--store", collected.store, *words, "--device", "cpu", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["campaign"] == collected.campaign.id
    assert facts["method"] == "veil"
    assert facts["guarantee"]["relations"]["user_level"] == "any two records"
    assert facts["label_reports"] == int(collected.perturbed.has_label.sum())
    assert facts["screening"]["excluded"] is False


def test_little_memory_means_blocks_and_the_same_model(
    collected: Collected, trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = collected.private.schema
    numbers = NODES * (3 * schema.num_features + HIDDEN + 12 * schema.num_classes)  # all features are binary
    method = method_for_campaign("rgnn", collected.campaign, collected.perturbed.graph, **PARAMETERS)
    assert isinstance(method, RGNN)
    split, seen = split_reports(collected.perturbed, method, seed=0, hold_out=0.0)
    task = FitTask(method=method, perturbed=seen, split=split)
    with caplog.at_level(logging.INFO, "veilgraph"):
        [fit] = RGNN.start_together([task], memory=4 * numbers, block_nodes=50)
        [found] = fit.result()
    assert "blocks of at most 50" in caplog.text
    expected = Model.load(trained, device="cpu").method
    # Sums over nodes are rounded differently, and fifteen steps increase the difference a little.
    np.testing.assert_allclose(found.method.predict_proba(), expected.predict_proba(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("memory", "message"), [("plenty", "memory is 'plenty'"), ("1KB", "allow more memory")])
def test_memory_that_cannot_be_is_refused(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str], memory: str, message: str
) -> None:
    assert collected.train(out=tmp_path / "model", memory=memory) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "model").exists()


def test_what_is_implausible_is_counted_or_left_out(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    reports = list(reports_of(collected.perturbed, collected.campaign))
    copied = next(report.features for report in reports if report.features is not None)
    store.reports.put([replace(r, features=copied) for r in reports[:20]] + reports[20:], now=0)
    store.close()
    words = words_of("train", **collected.files())[1:]
    words += ["--store", f"sqlite:///{tmp_path}/reports.db", "--out", str(tmp_path / "model")]
    for screen, fate in (([], "kept, --screen leaves them out"), (["--screen"], "left out")):
        assert main(["train", *words, "--device", "cpu", *screen]) == 0
        assert f"20 implausible (copies), 0.01 expected by chance at most: {fate}" in capsys.readouterr().out
    facts = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    assert facts["screening"]["excluded"]
    assert facts["feature_reports"] < int(collected.perturbed.has_features.sum())


def test_shares_that_are_not_plausible_raise_an_alarm_in_print_and_in_the_folder(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """40 of 100 label reports are replaced by the first class, with honest features."""
    classes = collected.campaign.schema.classes
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    reports = list(reports_of(collected.perturbed, collected.campaign))
    labelled = [report for report in reports if report.label is not None]
    lies = {report.node for report in labelled[: round(0.4 * len(labelled))]}
    store.reports.put([replace(r, label=0) if r.node in lies else r for r in reports], now=0)
    store.close()
    shares = tmp_path / "shares.toml"
    shares.write_text(f'"{classes[0]}" = [0.1, 0.3]\n"{classes[1]}" = [0.0, 1.0]\n', encoding="utf-8")
    options = {"out": tmp_path / "model", "plausible": shares}
    words = words_of("train", **collected.files(), **options)[1:]
    assert main(["train", *words, "--store", f"sqlite:///{tmp_path}/reports.db", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    facts = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    first, second = facts["plausibility"]["shares"]
    assert (first["verdict"], second["verdict"]) == ("above", "plausible")
    assert first["declared"] == [0.1, 0.3]
    assert first["least_liars"] < 0.4
    assert f"ALARM: {first['sentence']}" in printed
    assert "coordinated liars who always report it would explain this" in first["sentence"]
    assert "1 of 2 declared class shares are plausible." in printed


def test_reports_that_were_not_randomized_are_measured_in_print_and_in_the_folder(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A random third of the label reports are replaced by the first class."""
    reports = list(reports_of(collected.perturbed, collected.campaign))
    labelled = [report.node for report in reports if report.label is not None]
    lies = set(np.random.default_rng(0).permutation(labelled)[: len(labelled) // 3].tolist())
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([replace(r, label=0) if r.node in lies else r for r in reports], now=0)
    store.close()
    files = [*words_of("train", **collected.files())[1:], "--store", f"sqlite:///{tmp_path}/reports.db"]
    assert main(["train", *files, "--out", str(tmp_path / "model"), "--device", "cpu"]) == 0
    found = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))["contamination"]
    first = collected.campaign.schema.classes[0]
    assert list(found["targets"]) == [first]
    # Half of the reports name the class, a quarter without lies: the standard error of a share of liars.
    assert found["share"] == pytest.approx(1 / 3, abs=4 * (0.25 / len(labelled)) ** 0.5 / 0.75)
    assert f"of the label reports look as if they were not randomized; most name '{first}'." in found["sentence"]
    assert found["sentence"] in capsys.readouterr().out
    assert main(["status", *files, "--out", str(tmp_path / "assessment.json"), "--set", "device=cpu"]) == 0
    assert found["sentence"] in capsys.readouterr().out


def test_of_honest_people_who_look_like_liars_the_accuracy_if_they_are_honest_is_told() -> None:
    """A fifth of the people have the last class wherever they are; all of them are honest."""
    made = csbm(600, num_classes=4, homophily=0.9, seed=0)
    rng = np.random.default_rng(0)
    private = replace(made, labels=np.where(rng.random(600) < 0.2, 3, made.labels))
    split = Split.random(600, seed=0)
    reports = simulate(private, PrivacyBudget(epsilon_y=4.0), split, rng=rng)
    veil = LabelVeil().fit(reports, split)
    found, judged = contamination_facts(veil, "abcd", reports), veil.unused_reports(reports)
    assert found is not None
    assert judged is not None
    right = float((judged.predicted == private.labels[judged.nodes]).mean())
    assert judged.accuracy().low > right  # what is taken as true promises too much
    honest = Estimate(**found["accuracy_if_honest"])
    assert honest.value is not None
    assert abs(honest.value - right) < honest.high - honest.low  # about four standard errors
    assert found["sentence"].endswith(f"if every report is honest, the model is right for {honest.text}.")


def test_honest_reports_raise_no_alarm_and_nothing_is_compared_unless_declared(
    collected: Collected, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undeclared = json.loads((trained / "training.json").read_text(encoding="utf-8"))["plausibility"]
    assert undeclared["shares"] == []
    channel = collected.perturbed.label_mechanism.channel
    assert undeclared["shift_per_liar"] == float((1 - channel.other) / channel.gain)
    counts = np.bincount(collected.private.labels) / NODES
    lines = [
        f'"{name}" = [{max(0, share - 0.05)}, {share + 0.05}]'
        for name, share in zip(collected.campaign.schema.classes, counts, strict=True)
    ]
    (tmp_path / "shares.toml").write_text("\n".join(lines), encoding="utf-8")
    assert collected.train(out=tmp_path / "model", epochs=1, plausible=tmp_path / "shares.toml") == 0
    printed = capsys.readouterr().out
    assert "ALARM" not in printed
    assert f"{len(lines)} of {len(lines)} declared class shares are plausible." in printed


def test_an_unknown_class_is_refused_before_training(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shares.toml").write_text("nobody = [0, 1]", encoding="utf-8")
    assert collected.train(out=tmp_path / "model", plausible=tmp_path / "shares.toml") == 2
    assert "'nobody' is not a class of the campaign: known are" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("case", ["a file that does not exist", "no report of this campaign"])
@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_store_without_reports_of_the_campaign_is_one_sentence_and_creates_nothing(
    collected: Collected, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, command: str
) -> None:
    path = tmp_path / "reports.db"
    if case == "no report of this campaign":
        other = ReportStore.open(f"sqlite:///{path}")
        reports = reports_of(collected.perturbed, collected.campaign)
        other.reports.put([replace(report, campaign="0" * 64) for report in reports], now=0)
        other.close()
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    options = {"graph": collected.folder / "edges.csv", "store": f"sqlite:///{path}"}
    options |= (
        {"campaign": collected.folder / "campaign.json", "nodes": collected.folder / "nodes.csv"}
        if command == "train"
        else {"model": trained}
    )
    out = tmp_path / ("model" if command == "train" else "predictions.csv")
    assert collected.command(command, **options, out=out) == 2
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    expected = f"{path} does not exist" if not before else f"holds no report of the campaign {collected.campaign.id}"
    assert expected in sentence
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_holding_out_label_sets_estimates_the_accuracy_of_the_method_and_of_the_control(
    collection: Callable[[str], Collected], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = collection("label sets")
    words = words_of("train", **sets.files())[1:]
    words += ["--store", sets.store, "--device", "cpu", "--out", str(tmp_path / "model"), "--set", "hold_out=0.4"]
    assert main(["train", *words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["method"] == "veil"
    assert facts["guarantee"]["relations"]["user_level"] == "any two records"
    assert list(facts["estimated_accuracy"]) == ["veil", "structure_only"]
    model = Model.load(tmp_path / "model", device="cpu")
    kept = {report.node for report in model.reports()}
    names = np.array(sets.perturbed.graph.names)
    held_out = sets.perturbed.has_label & ~np.isin(names, list(kept))
    assert int(held_out.sum()) == facts["held_out"]
    true, estimate = accuracy(model.method.predict(), sets.private, held_out), facts["estimated_accuracy"]["veil"]
    # Four standard errors; the seed is fixed.
    assert abs(estimate["accuracy"] - true) < 4 * estimate["standard_error"]
    assert main(["train", *words]) == 0
    printed = capsys.readouterr().out
    assert "Estimated accuracy of veil: " in printed
    assert "Estimated accuracy of structure_only: " in printed
