"""Theorems that hold for the wire form of every mechanism that a campaign can ask with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.support.label_cases import LABELS
from veilgraph.errors import BudgetError, CampaignError, ReportError
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.mechanisms import (
    GRRFS,
    JointGRR,
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    RandomizedNeighbourList,
)
from veilgraph.privacy.mechanisms.registry import ANSWER_FORMS, FEATURE_FORMS, LABEL_FORMS
from veilgraph.privacy.mechanisms.wire import find_form

SIZES = (2, 3, 12_000)
FEATURES: list[Any] = [GRRFS(SIZES, 2, 0.7), JointGRR(SIZES, 2, 0.7)]
ANSWERS: list[Any] = [
    NeighbourhoodClass(3, 1.0),
    NeighbourhoodHistogram(3, 1.0, finest_scale(3)),
    RandomizedNeighbourList(9, 1.0),
]
FORMS: Mapping[str, Any] = {**LABEL_FORMS, **FEATURE_FORMS, **ANSWER_FORMS}
NAMES = ("a", "b", "c")

every_form = pytest.mark.parametrize("form", [*LABELS, *FEATURES, *ANSWERS], ids=lambda form: form.wire_name)
every_packed_form = pytest.mark.parametrize("form", [*LABELS, *ANSWERS], ids=lambda form: form.wire_name)


def domain_of(form: Any) -> Any:
    """Return what `read` needs to know besides the part of the document."""
    return next(
        getattr(form, name)
        for name in ("domain_sizes", "domain_size", "num_classes", "num_people")
        if hasattr(form, name)
    )


def drawn(form: Any, count: int = 40) -> Any:
    """Return reports as `randomize` draws them."""
    rng = np.random.default_rng(0)
    if form in FEATURES:
        return form.randomize(np.zeros((count, len(SIZES)), dtype=np.int64), rng=rng)
    if form in LABELS:
        return form.randomize(np.arange(count) % form.domain_size, rng=rng)
    return form.randomize(np.ones((count, form.num_columns), dtype=np.int64), rng=rng)


def test_every_registered_mechanism_is_tried() -> None:
    assert {form.wire_name for form in [*LABELS, *FEATURES, *ANSWERS]} == set(FORMS)


@every_form
def test_a_document_is_read_as_it_was_written(form: Any) -> None:
    stated = json.loads(json.dumps(form.document))
    assert find_form(stated, FORMS, "part").read(stated, "part", domain_of(form)) == form


@every_form
def test_no_changed_integer_of_a_document_is_read_as_the_same_mechanism(form: Any) -> None:
    for key, value in form.document.items():
        if key in ("mechanism", "epsilon"):
            continue
        tables = value if isinstance(value, list) else [value]
        for number, table in enumerate(tables):
            changed = table + 1 if isinstance(table, int) else {**(table or {}), "true": 1, "inside": 1}
            forged = changed if not isinstance(value, list) else [*value[:number], changed, *value[number + 1 :]]
            try:
                found = type(form).read({**form.document, key: forged}, "part", domain_of(form))
            except (CampaignError, BudgetError):
                continue
            assert found != form  # another mechanism, whose own integers these are


@every_form
def test_a_part_with_another_key_or_no_object_is_refused(form: Any) -> None:
    for stated in ({**form.document, "extra": 1}, dict(list(form.document.items())[:-1])):
        with pytest.raises(CampaignError, match="part"):
            type(form).read(stated, "part", domain_of(form))
    unknown: list[object] = [[], None, "grr", {"mechanism": "unknown"}, {"mechanism": ["grr"]}]
    for part in unknown:
        with pytest.raises(CampaignError, match="part"):
            find_form(part, FORMS, "part")


@every_packed_form
def test_reports_are_packed_unpacked_and_checked(form: Any) -> None:
    rows = drawn(form)
    reports = form.decode(rows)
    np.testing.assert_array_equal(form.encode(reports), rows)
    for report in reports:
        stated = json.loads(json.dumps(report))
        assert form.check_report(stated, "part") == (tuple(stated) if isinstance(stated, list) else stated)
        assert form.report_schema["type"] == {list: "array", int: "integer", str: "string"}[type(stated)]
        assert len(json.dumps(report)) <= len(json.dumps(form.longest_report))


@pytest.mark.parametrize("form", FEATURES, ids=lambda form: form.wire_name)
def test_reports_of_features_are_checked_and_named_in_errors(form: Any) -> None:
    for row in drawn(form).tolist():
        stated = [None if code == -1 else code for code in row]
        assert len(json.dumps(stated)) <= len(json.dumps(form.longest_report))
        assert form.check_report(stated, NAMES) == tuple(stated)
        assert len([code for code in stated if code is not None]) == form.num_answered
        place = next(i for i, code in enumerate(stated) if code is not None)
        with pytest.raises(ReportError, match=f"feature '{NAMES[place]}'"):
            form.check_report([*stated[:place], SIZES[place], *stated[place + 1 :]], NAMES)


@every_packed_form
def test_what_is_no_report_is_refused_by_its_part(form: Any) -> None:
    values: tuple[Any, ...] = (None, "1", 1.5, True, -1, [True], [-1], [1, 1], {}, [0.0], 10**9, [10**9])
    for value in values:
        with pytest.raises(ReportError, match=r"^part: "):
            pytest.fail(f"{value!r} was read as {form.check_report(value, 'part')}")


@every_form
def test_a_mechanism_says_its_chance_and_names_the_question(form: Any) -> None:
    said = form.method_in_words("these questions")
    assert "these questions" in said
    assert " in 100" in said or isinstance(form, NeighbourhoodHistogram)  # noise has no such chance
