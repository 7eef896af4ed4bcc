"""Schemas: accepted and refused values, files, and proposals. Messages never contain a private value."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.forgeries import ALIKE, APART, MISLEADING_TEXTS
from veilgraph.errors import DomainError, SchemaError
from veilgraph.privacy.plain_text import look, misleading_character
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.privacy.schema import NO_LABEL, Column, FeatureSchema, propose_schema

AGE = Column(name="age", edges=(0, 30, 50, 120))
PERSONS = Column(name="persons", edges=(1, 2, 4, 20), whole=True)
SMOKER = Column(name="smoker", values=("never", "former", "current"))
PAIN = Column(name="pain")
PATIENTS = FeatureSchema(columns=(AGE, SMOKER, PAIN), classes=("well", "ill"), note="Agreed by the ward.")

texts = st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda text: misleading_character(text) is None)
values = st.lists(texts, min_size=2, max_size=5, unique_by=look).map(tuple)
edges = st.lists(st.floats(allow_nan=False), min_size=3, max_size=6, unique=True).map(sorted).map(tuple)
whole_edges = st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=6, unique=True).map(sorted).map(tuple)


@st.composite
def schemas(draw: st.DrawFn) -> FeatureSchema:
    names = draw(st.lists(texts, min_size=1, max_size=5, unique_by=look))
    group = draw(st.integers(1, 3))
    several: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"values": values})
    several |= st.fixed_dictionaries({"edges": edges})
    several |= st.fixed_dictionaries({"edges": whole_edges, "whole": st.just(True)})
    kinds: st.SearchStrategy[dict[str, Any]] = several if group == 1 else st.just({})
    classes = draw(values.filter(lambda names: "" not in names))
    columns = tuple(Column(name=name, **draw(kinds)) for name in names)
    return FeatureSchema(columns=columns, classes=classes, group=group, note=draw(texts))


@settings(deadline=None)
@given(schema=schemas())
def test_a_saved_schema_loads_as_the_same_schema(
    schema: FeatureSchema, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    schema.save(path)
    assert FeatureSchema.load(path) == schema


def test_bins_are_closed_on_the_left_and_the_last_one_on_both_sides() -> None:
    assert AGE.encode([0, 29.999, 30, 49.999, 50, 119.999, 120]).tolist() == [0, 0, 1, 1, 2, 2, 2]


@settings(deadline=None)
@given(numbers=st.lists(st.floats(0, 120), min_size=1))
def test_a_code_names_the_bin_that_its_value_is_in(numbers: list[float]) -> None:
    for number, code in zip(numbers, AGE.encode(numbers), strict=True):
        assert AGE.edges[code] <= number <= AGE.edges[code + 1]


@settings(deadline=None)
@given(edges=whole_edges, data=st.data())
def test_no_whole_number_is_in_two_named_bins(edges: tuple[int, ...], data: st.DataObject) -> None:
    column = Column(name="persons", edges=edges, whole=True)
    number = data.draw(st.integers(edges[0], edges[-1]) | st.sampled_from(edges))
    named = [tuple(map(int, name.split(" to "))) for name in column.code_names]
    fitting = [code for code, name in enumerate(named) if name[0] <= number <= name[-1]]
    assert fitting == column.encode([number]).tolist()


def test_values_are_compared_as_text() -> None:
    bits: list[Any] = [0, 0.0, False, np.False_, "0", np.int8(0), 1, 1.0, True, np.True_, "1", np.float32(1)]
    assert PAIN.encode(bits).tolist() == [0] * 6 + [1] * 6
    assert Column(name="pain", values=("False", "True")).encode([True, False]).tolist() == [1, 0]
    assert SMOKER.encode(["current", "never", "former"]).tolist() == [2, 0, 1]


def test_codes_have_names() -> None:
    assert AGE.code_names == ("0 to below 30", "30 to below 50", "50 to 120")
    assert PERSONS.code_names == ("1", "2 to 3", "4 to 20")
    unlimited = Column(name="debts", edges=(-math.inf, 0, 1_000_001, math.inf))
    assert unlimited.code_names == ("below 0", "0 to below 1000001", "1000001 or more")
    assert SMOKER.code_names == ("never", "former", "current")
    assert PATIENTS.code_names == (AGE.code_names, SMOKER.code_names, ("0", "1"))


@pytest.mark.parametrize(
    ("column", "raw", "reason"),
    [
        (AGE, [20, 6161], "row 2: outside the declared range 0..120"),
        (AGE, [-6161, 20], "row 1: outside the declared range 0..120"),
        (AGE, [20, 20, math.nan], "row 3: missing"),
        (AGE, [20, None], "row 2: missing"),
        (AGE, [20, math.inf], "row 2: outside"),
        (AGE, ["20", "6161 years"], "row 2: not a number (value withheld); write it with the digits 0 to 9"),
        (AGE, ["20", "٣٠"], "row 2: not a number"),
        (AGE, ["20", "３０"], "row 2: not a number"),
        (AGE, ["6_1", "20"], "row 1: not a number"),
        (AGE, ["20", "61,61"], "row 2: not a number"),
        (AGE, ["20", ""], "row 2: missing"),
        (AGE, ["20", "nan"], "row 2: not a number"),
        (PERSONS, [2, 3.0, 6161.5], "row 3: not a whole number"),
        (PERSONS, ["2.0", "2.5"], "row 2: not a whole number"),
        (SMOKER, ["never", "never", "6161"], "row 3: not one of the 3 declared values"),
        (SMOKER, ["never", None], "row 2: not one of"),
        (PAIN, [0, 6161], "row 2: not one of the 2 declared values"),
        (PAIN, [0, 0.5], "row 2: not one of"),
    ],
)
def test_a_private_value_that_is_refused_is_located_and_never_quoted(column: Column, raw: Any, reason: str) -> None:
    with pytest.raises(DomainError) as refusal:
        column.encode(raw)
    message = str(refusal.value)
    assert message.startswith(f"column '{column.name}'")
    assert reason in message
    assert "6161" not in message
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("make", [dict, pd.DataFrame], ids=["mapping", "frame"])
def test_a_table_becomes_codes_in_the_order_of_the_schema(make: Any) -> None:
    table = make({"pain": [1, 0], "unused": [9, 9], "age": [64.5, 12], "smoker": ["former", "never"]})
    codes = PATIENTS.encode(table)
    assert codes.tolist() == [[2, 1, 1], [0, 0, 0]]
    assert codes.dtype == np.uint8


def test_codes_beyond_a_byte_take_two() -> None:
    wide = Column(name="postcode", values=tuple(map(str, range(257))))
    schema = FeatureSchema(columns=(wide,), classes=("a", "b"))
    codes = schema.encode({"postcode": [256]})
    assert (codes.dtype, codes.tolist()) == (np.dtype(np.uint16), [[256]])


@pytest.mark.parametrize(
    ("columns", "group", "features"), [(3703, 70, 53), (1433, 25, 58), (1639, 50, 33), (4714, 100, 48), (5, 1, 5)]
)
def test_merging_columns_gives_the_papers_number_of_features(columns: int, group: int, features: int) -> None:
    schema = FeatureSchema.binary(columns, classes=["a", "b"], group=group)
    assert schema.num_features == len(schema.feature_names) == features
    assert schema.domain_sizes == (2,) * features


@settings(deadline=None)
@given(columns=st.integers(1, 20), group=st.integers(1, 25), seed=st.integers(0, 2**32 - 1))
def test_a_merged_feature_is_one_where_any_of_its_columns_is(columns: int, group: int, seed: int) -> None:
    schema = FeatureSchema.binary(columns, classes=["a", "b"], group=group)
    codes = np.random.default_rng(seed).integers(0, 2, size=(6, columns), dtype=np.uint8)
    merged = schema.merge(codes)
    assert merged.shape == (6, schema.num_features)
    for i, start in enumerate(range(0, columns, group)):
        np.testing.assert_array_equal(merged[:, i], codes[:, start : start + group].any(axis=1))


def test_a_merged_feature_is_named_after_its_first_and_last_column() -> None:
    schema = FeatureSchema.binary(5, classes=["a", "b"], group=2, prefix="w")
    assert schema.feature_names == ("w0..w1", "w2..w3", "w4")
    assert schema.code_names == (("none", "any"), ("none", "any"), ("0", "1"))


@pytest.mark.parametrize("missing", [None, math.nan, "", pd.NA, pd.NaT, float("nan")])
def test_a_missing_label_is_no_label(missing: object) -> None:
    labels = np.array(["ill", missing, "well"], dtype=object)
    assert PATIENTS.encode_labels(labels).tolist() == [1, NO_LABEL, 0]


def test_a_label_outside_the_classes_is_refused_and_never_quoted() -> None:
    with pytest.raises(DomainError, match=r"column 'diagnosis', row 2: not one of .*\['well', 'ill'\]") as refusal:
        PATIENTS.encode_labels(["ill", "6161"], name="diagnosis")
    assert "6161" not in str(refusal.value)
    assert refusal.value.__context__ is None


def test_a_class_may_be_called_none() -> None:
    schema = FeatureSchema(columns=(PAIN,), classes=("None", "nan", "some"))
    assert schema.encode_labels(np.array(["None", None, "nan", "some"], dtype=object)).tolist() == [0, NO_LABEL, 1, 2]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"edges": (0, 1)}, "2 edges; at least 3 make 2 bins"),
        ({"edges": (0, 2, 1)}, "must rise"),
        ({"edges": (0, 1, 1)}, "must rise"),
        ({"edges": (0, math.nan, 1)}, "must rise"),
        ({"edges": (0, 2.5, 4), "whole": True}, "of whole numbers must be whole"),
        ({"whole": True}, "values are no numbers that could be whole"),
        ({"values": ("a",)}, "must be 2 or more, all different"),
        ({"values": ("a", "b", "a")}, "must be 2 or more, all different"),
        ({"values": tuple(map(str, range(2**16 + 1)))}, "at most 65536 are possible"),
    ],
)
def test_an_inconsistent_column_is_refused_by_name(column: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'x'.*{reason}"):
        Column(name="x", **column)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"columns": (), "group": 2}, "there are no columns to merge"),
        ({"columns": (PAIN, AGE, PAIN)}, "column 'pain' is declared twice"),
        ({"classes": ("a",)}, "declare 2 or more, all different"),
        ({"classes": ("a", "a")}, "declare 2 or more, all different"),
        ({"classes": ("a", "")}, "a class without a name would read as a missing label"),
        ({"group": 0}, "group is 0: merge 1 column"),
        ({"columns": (PAIN, AGE), "group": 2}, "only binary columns can be merged"),
    ],
)
def test_an_inconsistent_schema_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        FeatureSchema(**{"columns": (PAIN,), "classes": ("a", "b")} | schema)


def test_a_proposal_needs_the_label_and_makes_a_column_of_one_value_binary() -> None:
    assert propose_schema(SAMPLE, label="ill").columns[3] == Column(name="constant")
    assert propose_schema({"ill": ["n", "y", None]}, label="ill").columns == ()
    with pytest.raises(SchemaError, match="the sample has no column 'outcome'"):
        propose_schema(SAMPLE, label="outcome")


def test_a_table_without_a_declared_column_or_of_another_width_is_refused() -> None:
    with pytest.raises(SchemaError, match="the table has no column 'smoker'"):
        PATIENTS.encode({"age": [1], "pain": [0]})
    with pytest.raises(SchemaError, match="2 columns where the schema declares 3"):
        PATIENTS.merge(np.zeros((1, 2), dtype=np.uint8))


def test_names_and_answers_that_look_alike_are_refused_and_those_that_a_reader_tells_apart_are_not() -> None:
    for one, other in ALIKE.values():
        with pytest.raises(SchemaError, match="look alike"):
            Column(name="x", values=("a", one, other))
        with pytest.raises(SchemaError, match=r"look alike|without a name"):
            FeatureSchema(classes=("a", one, other))
        with pytest.raises(SchemaError, match="look alike"):
            FeatureSchema(columns=(Column(name=one), Column(name=other)), classes=("a", "b"))
    for pair in APART.values():
        assert FeatureSchema(columns=(Column(name="x", values=pair),), classes=pair).num_classes == 2


@given(st.integers(0, 20), st.lists(st.text(st.characters(codec="ascii", categories=["L"]), min_size=1), unique=True))
def test_a_schema_of_classes_alone_has_no_features(rows: int, others: list[str]) -> None:
    schema = FeatureSchema(classes=("a", "b"))
    assert (schema.num_features, schema.domain_sizes, schema.feature_names, schema.code_names) == (0, (), (), ())
    table = {name: [0] * rows for name in others}
    codes = schema.encode(table)
    assert codes.shape == (rows if others else 0, 0)
    assert codes.dtype == np.uint8
    assert schema.merge(codes).shape == codes.shape


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_file_with_classes_alone_is_a_schema_and_is_written_back_so(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('classes = ["c0", "c1"]\n', encoding=encoding)
    schema = FeatureSchema.load(path)
    assert schema == FeatureSchema(classes=("c0", "c1"))
    schema.save(tmp_path / "again.toml")
    assert "columns" not in (tmp_path / "again.toml").read_text(encoding="utf-8")
    assert FeatureSchema.load(tmp_path / "again.toml") == schema


CLASSES = 'classes = ["a", "b"]\n'


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("classes = [", "cannot be read as a schema"),
        ("columns = []", "'classes' is missing or not a list"),
        (CLASSES + "columns = 3", "'columns' is missing or not a list"),
        (CLASSES + "columns = [3]", "every column needs a name"),
        (CLASSES + 'columns = [{values = ["x", "y"]}]', "every column needs a name"),
        (
            CLASSES + 'columns = [{name = "x"}]\ncolour = 1',
            "unknown key 'colour'; known are classes, columns, group, note",
        ),
        (
            CLASSES + 'columns = [{name = "x", vales = []}]',
            "column 'x': unknown key 'vales'; known are edges, name, values",
        ),
        (
            CLASSES + 'columns = [{name = "x", values = ["u", "v"], edges = [0, 1, 2]}]',
            "give values or edges, not both",
        ),
        (CLASSES + 'columns = [{name = "x", edges = [0, "one", 2]}]', "column 'x': edges must be numbers"),
        (CLASSES + 'columns = [{name = "x", edges = "012"}]', "column 'x': edges must be a list"),
        (CLASSES + 'columns = [{name = "x", values = "ab"}]', "column 'x': values must be a list"),
        (CLASSES + 'columns = [{name = "x", edges = []}]', "column 'x': edges must be a list, not empty"),
        (CLASSES + 'columns = [{name = "x"}]\ngroup = "two"', "'group' must be a whole number"),
        (CLASSES + 'columns = [{name = "x"}]\ngroup = 1.5', "'group' must be a whole number"),
    ],
)
def test_a_file_that_is_no_schema_is_refused_with_what_is_wrong(document: str, reason: str, tmp_path: Path) -> None:
    # TOML requires plain keys before tables; inline tables allow any order.
    path = tmp_path / "schema.toml"
    path.write_text(document, encoding="utf-8")
    with pytest.raises(SchemaError, match=reason) as refusal:
        FeatureSchema.load(path)
    assert str(path) in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    for encoding in ("utf-16", "cp1252"):
        binary.write_text('classes = ["krank", "für"]', encoding=encoding)
        with pytest.raises(SchemaError, match=r"binary\.toml is not UTF-8: save it as UTF-8"):
            FeatureSchema.load(binary)
    for path in (tmp_path, tmp_path / "absent.toml"):
        with pytest.raises(SchemaError, match="cannot be read as a schema"):
            FeatureSchema.load(path)


SAMPLE = {
    "income": [float(i) ** 3 for i in range(40)],
    "visits": [0] * 30 + list(range(1, 11)),
    "smoker": ["no", "yes"] * 20,
    "constant": ["x"] * 40,
    "ill": ["n", "y", "n", None] * 10,
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame], ids=["mapping", "frame"])
def test_a_proposed_schema_covers_its_sample_and_says_where_it_came_from(make: Any) -> None:
    sample = make({name: column for name, column in SAMPLE.items() if name != "constant"})
    draft = propose_schema(sample, label="ill", bins=4)
    assert "public sample of 40 rows" in draft.note
    assert "never propose one from private data" in draft.note
    assert draft.classes == ("n", "y")
    assert draft.feature_names == ("income", "visits", "smoker")
    assert draft.domain_sizes == (4, 4, 2)
    assert draft.encode(sample).shape == (40, 3)
    assert (np.bincount(draft.encode(sample)[:, 0]) == 10).all()  # quartiles


@settings(deadline=None)
@given(
    numbers=st.lists(st.integers(-(10**9), 10**9) | st.sampled_from([0, 1, 1_000_001]), min_size=2, max_size=30),
    bins=st.integers(2, 6),
)
def test_a_proposal_accepts_the_numbers_that_it_was_made_from(numbers: list[int], bins: int) -> None:
    labels = (["a", "b"] * len(numbers))[: len(numbers)]
    draft = propose_schema({"x": numbers, "y": labels}, label="y", bins=bins)
    if len(set(numbers)) > 1:
        assert len(np.unique(draft.encode({"x": numbers}))) > 1
    else:
        assert draft.columns[0] == Column(name="x")


def test_a_schema_refuses_texts_that_could_mislead(tmp_path: Path) -> None:
    for text in MISLEADING_TEXTS.values():
        for make in (
            lambda text: Column(name=text),
            lambda text: Column(name="x", values=("a", text)),
            lambda text: FeatureSchema.binary(1, classes=("a", text)),
            lambda text: FeatureSchema(columns=(Column(name="x"),), classes=("a", "b"), note=text),
            lambda text: propose_schema({"x": ["a", text, "b"], "y": ["n", "y", "n"]}, label="y"),
        ):
            with pytest.raises(SchemaError, match="holds U") as caught:
                make(text)
            assert str(caught.value).isprintable()
    path = tmp_path / "schema.toml"
    path.write_text('classes = ["a", "b"]\ncolumns = [{name = "x\\u001b[2K"}]\n')
    with pytest.raises(SchemaError, match=r"a column's name holds U\+001B"):
        FeatureSchema.load(path)


def test_public_columns_are_kept_by_a_file_in_the_order_of_their_names(tmp_path: Path) -> None:
    public = (PublicColumn(name="village", kind="category"), PublicColumn(name="age"))
    schema = FeatureSchema(classes=("no", "yes"), public=public)
    schema.save(tmp_path / "schema.toml")
    assert FeatureSchema.load(tmp_path / "schema.toml") == schema
    assert [column.name for column in schema.public] == ["age", "village"]
    assert schema.label_alone.public == schema.public
    assert schema.num_features == 0


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('[[columns]]\nname = "age"\n[[public]]\nname = "age"', "'age' is asked and 'age' is public"),
        ('[[columns]]\nname = "age"\n[[public]]\nname = "Age"', "'age' is asked and 'Age' is public"),
        (
            '[[public]]\nname = "calls"\nkind = "link"',
            "'calls': its kind is 'link'; what is known about links is in the table",
        ),
        ('[[columns]]\nname = "age"\n[[public]]\nname = "age "', "'age' is asked and 'age ' is public"),
        ('[[columns]]\nname = "is_ill"\n[[public]]\nname = "Is ill?"', "'is_ill' is asked and 'Is ill\\?' is public"),
        ('[[columns]]\nname = "ill"\n[[public]]\nname = "İLL"', "'ill' is asked and 'İLL' is public"),
        ("[[public]]\nname = 1", "every public column needs a name"),
        ('[[public]]\nname = "age"\nsize = 3', "public column 'age': unknown key 'size'"),
        ('[[public]]\nname = "age"\nkind = "colour"', "kind is 'colour'; use number, category, date or embedding"),
        ('public = "age"', "'public' is missing or not a list"),
    ],
)
def test_public_columns_that_contradict_are_refused(tmp_path: Path, lines: str, reason: str) -> None:
    head = "" if lines.startswith("public") else 'classes = ["a", "b"]\n'
    tail = '\nclasses = ["a", "b"]' if lines.startswith("public") else ""
    (tmp_path / "schema.toml").write_text(head + lines + tail)
    with pytest.raises(SchemaError, match=reason):
        FeatureSchema.load(tmp_path / "schema.toml")
