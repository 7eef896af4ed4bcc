"""A private record: how it is encoded, and that no error shows a value of it."""

from __future__ import annotations

import random
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.campaigns import BEFORE, CAMPAIGNS, records
from tests.support.device import BINARY, ask
from tests.support.forgeries import MISTAKES, RECORD, SECRET
from veilgraph.client import encode, mechanisms, verify
from veilgraph.client.record import encode_value
from veilgraph.errors import CampaignError, DomainError
from veilgraph.privacy.schema import Column

CLIENT = Path(mechanisms.__file__).parent


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_exception_contains_a_private_value(mistake: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["large epsilon"], random.Random(0))) | MISTAKES[mistake]
    with pytest.raises(DomainError) as caught:
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__context__)
    assert SECRET not in shown
    assert list(tmp_path.iterdir()) == []


class Explosive:
    """A value that quotes itself in every error and every repr."""

    def __repr__(self) -> str:
        return SECRET

    def __eq__(self, other: object) -> bool:
        raise ValueError(SECRET)

    __hash__ = None  # type: ignore[assignment]
    __str__ = __float__ = __int__ = __index__ = __repr__


class ExplosiveText(str):
    """Text that quotes itself when it is compared."""

    __slots__ = ()
    __eq__ = Explosive.__eq__
    __hash__ = str.__hash__


class UnreadableRecord(dict[str, Any]):
    """A record that quotes a value when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise OSError(f"/home/{SECRET}")


odd_texts = st.text(
    st.one_of(
        st.sampled_from("\x00\x1c\x1d\x1e\x1f\x85\xa0\u2028\u202e\u2066\u200f\u0663 +-.eE_\ud800"), st.characters()
    )
)
odd_values = st.one_of(
    st.builds(lambda before, after: f"{before}{SECRET}{after}", odd_texts, odd_texts),
    st.builds(lambda text: ExplosiveText(text + SECRET), odd_texts),
    st.integers(31337 * 10**3, 31337 * 10**3 + 999),
    st.sampled_from(
        [31337e100, -31337, b"31337", Explosive(), [Explosive()], {SECRET: SECRET}, object, 31337 * 10**5000]
    ),
)


def assert_shows_no_secret(error: BaseException) -> None:
    """Assert that neither the error, nor its causes, nor the client's local variables show the secret."""
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in str(error) + repr(error)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).parent == CLIENT:
            assert SECRET not in repr(frame.f_locals), f"a local variable of {frame.f_code.co_name}"


@given(name=st.sampled_from(["age", "weight", "city", "smoker", "größe \U0001f4cf", "label"]), value=odd_values)
def test_no_exception_shows_a_private_value_whatever_it_is(name: str, value: Any) -> None:
    question = verify(CAMPAIGNS["all features sampled"].to_json(), max_epsilon=5, now=BEFORE)
    record = next(records(CAMPAIGNS["large epsilon"], random.Random(0))) | {name: value}
    try:
        encode(question, record)
    except DomainError as error:
        assert_shows_no_secret(error)
    else:  # such as ' 31337 ' in a column of unlimited weights
        assert name == "weight"


@pytest.mark.parametrize("separator", "\x1c\x1d\x1e\x1f\x85\xa0\u2007")
def test_only_spaces_may_stand_around_a_number(separator: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["all features sampled"], random.Random(0))) | {"age": f"{separator}44{separator}"}
    with pytest.raises(DomainError, match="must be a number"):
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)
    assert ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record | {"age": "  44 "})


@pytest.mark.parametrize("record", [UnreadableRecord(RECORD), {**RECORD, "x0": SECRET}, {**RECORD, "x0": Explosive()}])
def test_no_local_variable_of_the_client_shows_the_record(record: Any, tmp_path: Path) -> None:
    with pytest.raises(DomainError) as caught:
        ask(BINARY.to_json(), tmp_path, record)
    assert_shows_no_secret(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CampaignError) as refused:
        ask(BINARY.to_json(), tmp_path, record, max_epsilon=1)
    assert_shows_no_secret(refused.value)


@pytest.mark.parametrize("missing", ["age", "label"])
def test_a_record_without_a_declared_column_is_refused_by_its_name(missing: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["all features sampled"], random.Random(0)))
    del record[missing]
    with pytest.raises(DomainError, match=f"has no '{missing}'"):
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)


def test_a_label_can_be_left_out_but_not_everything(tmp_path: Path) -> None:
    assert ask(BINARY.to_json(), tmp_path, {**RECORD, "ill": None})["label"] is None
    with pytest.raises(DomainError, match="leaves out everything"):
        ask(CAMPAIGNS["label only"].to_json(), tmp_path, {"label": None})


@given(
    edges=st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=8, unique=True).map(sorted),
    position=st.floats(0, 1),
    at_edge=st.integers(0, 7),
    text=st.booleans(),
)
def test_records_are_encoded_as_the_schema_does(edges: list[float], position: float, at_edge: int, text: bool) -> None:
    column = Column(name="x", edges=tuple(edges))
    for value in (edges[0] + position * (edges[-1] - edges[0]), edges[at_edge % len(edges)]):
        value = min(max(value, edges[0]), edges[-1])
        given_value = repr(value) if text else value
        code = encode_value({"name": "x", "edges": [repr(edge) for edge in edges]}, {"x": given_value})
        assert code == column.encode([given_value])[0]


@given(value=st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 0.5, "0", "1", "True", "0.5"])))
def test_values_are_read_as_the_schema_does(value: Any) -> None:
    for values in (("0", "1"), ("True", "False"), ("0.5", "1", "-2")):
        column = Column(name="x", values=values)
        try:
            expected = column.encode([value])[0]
        except DomainError:
            with pytest.raises(DomainError):
                encode_value({"name": "x", "values": values}, {"x": value})
        else:
            assert encode_value({"name": "x", "values": values}, {"x": value}) == expected
