"""No cell begins like a formula, and every text comes back as it was."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.graph.csv_cells import frame_to_cells, from_cell, to_cell

texts = st.text(alphabet=st.one_of(st.sampled_from("'=+-@\t\r\n\uff1d"), st.characters()), max_size=8)


@given(text=texts)
def test_a_cell_is_no_formula_and_gives_its_text_back(text: str) -> None:
    cell = to_cell(text)
    assert cell[:1] not in {"=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"}
    assert from_cell(cell) == text


@given(text=texts, other=texts)
def test_different_texts_have_different_cells(text: str, other: str) -> None:
    assert (to_cell(text) == to_cell(other)) == (text == other)


@pytest.mark.parametrize("text", ["u17", "'u17", "007", "a=b", "", "'"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert to_cell(text) == text
    assert from_cell(text) == text


def test_numbers_of_a_table_stay_numbers() -> None:
    table = pd.DataFrame({"node": ["=1+1", "b"], "p": [-0.5, 0.25], "n": [-1, 2], "reported": [True, False]})
    text = frame_to_cells(table).to_csv(index=False, lineterminator="\n")
    assert text == "node,p,n,reported\n'=1+1,-0.5,-1,True\nb,0.25,2,False\n"
    assert table["node"].tolist() == ["=1+1", "b"], "the table was changed"
