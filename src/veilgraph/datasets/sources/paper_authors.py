"""Semi-synthetic graphs of the paper's authors, German and Student: pickled igraph graphs with vertex attributes.

Attributes become 0/1 columns as in the authors' experiments: by a threshold, by bins, or by one column for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.restricted_unpickler import load_restricted

_Numbers = NDArray[np.float64]
_Column = NDArray[np.bool_]
_Rules = Mapping[str, Callable[[_Numbers], _Column]]

GERMAN_BINARY = """
    Gender ForeignWorker Single LoanRateAsPercentOfIncome YearsAtCurrentHome NumberOfOtherLoansAtBank
    NumberOfLiableIndividuals HasTelephone CheckingAccountBalance_geq_0 CheckingAccountBalance_geq_200
    SavingsAccountBalance_geq_100 SavingsAccountBalance_geq_500 MissedPayments NoCurrentLoan
    CriticalAccountOrLoansElsewhere OtherLoansAtBank HasCoapplicant HasGuarantor OwnsHouse RentsHouse Unemployed
    YearsAtCurrentJob_lt_1 YearsAtCurrentJob_geq_4 JobClassIsSkilled PurposeOfLoan_Business PurposeOfLoan_Education
    PurposeOfLoan_Electronics PurposeOfLoan_Furniture PurposeOfLoan_HomeAppliances PurposeOfLoan_NewCar
    PurposeOfLoan_Other PurposeOfLoan_Repairs PurposeOfLoan_Retraining PurposeOfLoan_UsedCar
"""
_GERMAN_RULES: _Rules = {
    "LoanRateAsPercentOfIncome": lambda rate: rate >= 3,
    "YearsAtCurrentHome": lambda years: years >= 3,
    "NumberOfOtherLoansAtBank": lambda count: count > 1,
    "NumberOfLiableIndividuals": lambda count: _binary(count - 1),
}
# Lower bounds of the bins; a value on a bound belongs to the bin below it.
_GERMAN_BINS = {
    "Age": (0, 30, 50),
    "LoanDuration": (0, 10, 20, 30),
    "LoanAmount": (0, 1000, 2000, 3000, 4000),
}

STUDENT_BINARY = """
    school sex address famsize Pstatus schoolsup famsup paid activities nursery higher internet romantic G1 G2
"""
_STUDENT_RULES: _Rules = {"G1": lambda grade: grade >= 10, "G2": lambda grade: grade >= 10}
STUDENT_VALUES = {
    "age": range(15, 20),
    "Medu": range(5),
    "Fedu": range(5),
    "Mjob": range(5),
    "Fjob": range(5),
    "reason": range(4),
    "guardian": range(3),
    "traveltime": range(1, 5),
    "failures": range(4),
    "goout": range(5),
}
_OLDEST = 19


def convert_german(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert German: clients of a bank; the label says whether they are good customers."""
    edges, attributes = _graph(files["graph"])
    columns = _binary_columns(attributes, GERMAN_BINARY, _GERMAN_RULES)
    for attribute, lower_bounds in _GERMAN_BINS.items():
        bins = np.searchsorted(lower_bounds[1:], attributes[attribute], side="left")
        columns |= {f"{attribute}={low}": bins == i for i, low in enumerate(lower_bounds)}
    return _archive(name, edges, attributes["class"], columns)


def convert_student(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Student: pupils of two schools; the label is their final grade. Age 20 counts as 19."""
    edges, attributes = _graph(files["graph"])
    attributes["age"] = np.where(attributes["age"] == _OLDEST + 1, _OLDEST, attributes["age"])
    columns = _binary_columns(attributes, STUDENT_BINARY, _STUDENT_RULES)
    for attribute, values in STUDENT_VALUES.items():
        if not np.isin(attributes[attribute], values).all():
            raise ValueError(f"attribute '{attribute}' has a value outside {values[0]}..{values[-1]}")
        columns |= {f"{attribute}={value}": attributes[attribute] == value for value in values}
    return _archive(name, edges, attributes["class"], columns)


def _graph(content: bytes) -> tuple[NDArray[Any], dict[str, _Numbers]]:
    """Return the edges [2, edges] and the value of every attribute for each vertex."""
    _, edges, _, _, attributes, _ = load_restricted(content).arguments
    numbers = {str(key): np.array(values, dtype=np.float64) for key, values in attributes.items()}
    return np.array(edges, dtype=np.int64).T, numbers


def _binary_columns(attributes: Mapping[str, _Numbers], names: str, rules: _Rules) -> dict[str, _Column]:
    return {name: rules.get(name, _binary)(attributes[name]) for name in names.split()}


def _binary(values: _Numbers) -> _Column:
    if not np.isin(values, (0, 1)).all():
        raise ValueError("an attribute that should be 0 or 1 has another value")
    ones: _Column = values == 1
    return ones


def _archive(name: str, edges: NDArray[Any], labels: _Numbers, columns: Mapping[str, _Column]) -> Archive:
    rows, ones = np.nonzero(np.stack(list(columns.values()), axis=1))
    return Archive.from_parts(
        name=name, edges=edges, labels=labels, rows=rows, columns=ones, width=len(columns), feature_names=list(columns)
    )
