"""Tables hold all numbers and the control, and text cannot break their format."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.result_rows import ablation, backbones, ceiling, control, flat, row, table2
from veilgraph.pages.result_tables import CSV_COLUMNS, result_table, rows_csv, to_latex, to_markdown


def test_csv_parses_back() -> None:
    rows = ablation()
    parsed = list(csv.DictReader(io.StringIO(rows_csv(rows))))
    assert len(parsed) == len(rows)
    first = parsed[0]
    assert tuple(first) == CSV_COLUMNS
    assert float(first["accuracy_mean"]) == rows[0].mean
    assert float(first["epsilon_user_level"]) == 10.5
    assert float(first["theorem_1"]) == 8.8325
    assert float(first["difference_to_published"]) == pytest.approx(0.5 - 0.402)
    assert first["within_noise"] == "no"
    assert float(first["control_mean"]) == pytest.approx(0.55)
    assert float(first["difference_to_control"]) == pytest.approx(-0.05)
    assert parsed[1]["published_mean"] == ""
    assert parsed[4]["method"] == "structure_only"
    assert parsed[4]["epsilon_x"] == parsed[4]["difference_to_control"] == ""


def test_hostile_names_stay_in_their_cells() -> None:
    name = 'a,"b"\nc'
    [parsed] = csv.DictReader(io.StringIO(rows_csv([row(0.5, dataset=name)])))
    assert parsed["dataset"] == name
    assert r"a\|b\<i>" in to_markdown(result_table("x", "t", [row(0.5, dataset="a|b<i>")]))
    assert "50.0" in result_table("x", "t", [row(0.498, seeds=1)]).rows[0], "one seed has no spread"


def test_markdown_has_the_control_and_the_published_accuracies() -> None:
    text = to_markdown(result_table("ablation", "The title", ablation()))
    _, _, head, rule, first, *_ = text.splitlines()
    assert head.startswith("| Data set | Method | ε_x | ε_y | User-level ε | Theorem 1 (not a guarantee) | Measured |")
    assert head.endswith("| Published | Difference | Within noise | Control | Minus control |")
    assert rule.count("|") == head.count("|") == first.count("|")
    cells = [cell.strip() for cell in first.replace("\N{NO-BREAK SPACE}", " ").strip("|").split("|")]
    assert cells[:7] == ["Citeseer", "RGNN", "1", "0.5", "10.5", "8.8325", "50.0 ± 0.2"]
    assert cells[7:] == ["40.2 ± 1.9", "+9.8", "no", "55.0 ± 0.0", "−5.0 ± 0.1"]
    assert "RGNN without f\\_Y" in text


def test_nothing_published_needs_no_columns() -> None:
    columns = result_table("baselines", "t", [flat(0.3, method="gcn"), control(0.5)]).columns
    assert "Published" not in columns
    assert columns[-2:] == ("Control", "Minus control")


def test_what_an_experiment_varies_is_shown() -> None:
    table = result_table("fig_backbones", "t", backbones())
    assert table.columns[2] == "Backbone"
    assert {row[2] for row in table.rows} == {"GraphSAGE", "GCN", "GAT", "–"}


def test_latex_escapes_and_is_balanced() -> None:
    text = to_latex(result_table("ablation", "100 % & more_or_less", ablation()))
    assert r"\caption{100 \% \& more\_or\_less." in text
    assert r"RGNN without f\_Y" in text
    assert r"$\varepsilon$\_x" in text
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    body = text.split(r"\endhead")[1].split(r"\hline")[0].strip().splitlines()
    assert len(body) == 10
    assert {line.replace(r"\&", "").count("&") for line in body} == {11}
    assert not set("ε±−–") & set(text)


def test_a_ceiling_stands_beside_a_control_from_elsewhere() -> None:
    table = result_table("table1", "t", [ceiling(0.8, dataset="cora")], table2())
    assert table.rows[0][-2].replace("\N{NO-BREAK SPACE}", " ") == "65.0 ± 0.0 (ε_y = 3)"
    assert "not private" in table.rows[0]
