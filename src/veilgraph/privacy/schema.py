"""Schema: names, domains, classes and public bins, declared before any record is seen.

Domains are never derived from private data. The range of a column, the quantiles of its values or the list of classes
that occur would each leak information that no mechanism accounts for.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import ArrayLike, NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import DomainError, SchemaError
from veilgraph.privacy.notebook_table import html_table, listed
from veilgraph.privacy.plain_text import look_alikes, misleading_character
from veilgraph.privacy.public_columns import LINK, PublicColumn, check_not_asked

NO_LABEL = -1
"""Code of a node whose label is unknown, even to the person."""

_BINARY = ("0", "1")
_LARGEST_DOMAIN = 2**16
_NUMBER = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
_LONGEST_NUMBER = 400


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a raw table: a list of values, or bins of a continuous quantity.

    Args:
        name: name of the column in the table.
        values: allowed values, in the order of their codes. Default: "0" and "1".
        edges: public bin edges of a continuous column, with its lowest and highest value. k + 1 edges make k bins
            [edge, next edge), the last one closed.
        whole: the continuous quantity is counted: a number that is not whole, such as 2.5 persons, is refused.

    >>> Column(name="age", edges=(0, 30, 50, 120)).encode([29.9, 30, 120]).tolist()
    [0, 1, 2]
    >>> Column(name="persons", edges=(1, 2, 4, 20), whole=True).code_names
    ('1', '2 to 3', '4 to 20')
    >>> Column(name="age", edges=(0, 30, 50, 120)).encode([130])
    Traceback (most recent call last):
    veilgraph.errors.DomainError: column 'age', row 1: outside the declared range 0..120 (value withheld); \
widen the range or correct the record
    """

    name: str
    values: tuple[str, ...] = _BINARY
    edges: tuple[float, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        _check_texts("a column's name", (self.name,))
        _check_texts(f"a value of column '{self.name}'", self.values)
        if self.edges:
            if len(self.edges) < 3:
                raise SchemaError(f"column '{self.name}': {len(self.edges)} edges; at least 3 make 2 bins")
            if not all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):
                raise SchemaError(f"column '{self.name}': edges {list(self.edges)} must rise")
            if self.whole and not all(math.isinf(edge) or float(edge).is_integer() for edge in self.edges):
                raise SchemaError(f"column '{self.name}': edges {list(self.edges)} of whole numbers must be whole")
        elif self.whole:
            raise SchemaError(
                f"column '{self.name}': values are no numbers that could be whole; give edges, or leave it out"
            )
        elif len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise SchemaError(f"column '{self.name}': values {list(self.values)} must be 2 or more, all different")
        _refuse_look_alikes(f"column '{self.name}': the values", self.values)
        if self.domain_size > _LARGEST_DOMAIN:
            raise SchemaError(
                f"column '{self.name}': {self.domain_size} values; at most {_LARGEST_DOMAIN} are possible"
            )

    @property
    def domain_size(self) -> int:
        """Number of codes, gamma."""
        return len(self.edges) - 1 if self.edges else len(self.values)

    @property
    def code_names(self) -> tuple[str, ...]:
        """Name of the value or bin of each code."""
        if not self.edges:
            return self.values
        names = [self._bin_name(low, high) for low, high in zip(self.edges, self.edges[1:], strict=False)]
        low, high = self.edges[-2:]
        return (*names[:-1], f"{low:.15g} or more" if math.isinf(high) else f"{low:.15g} to {high:.15g}")

    def _bin_name(self, low: float, high: float) -> str:
        """Return the name of a bin but the last one, so that no number is in two: the upper edge is in the next."""
        if math.isinf(low):
            return f"below {high:.15g}"
        if not self.whole:
            return f"{low:.15g} to below {high:.15g}"
        return f"{low:.15g}" if high == low + 1 else f"{low:.15g} to {high - 1:.15g}"

    def encode(self, raw: ArrayLike) -> NDArray[np.int64]:
        """Return the codes of raw values, [rows]. An undeclared value is refused; the message names its row only."""
        return self._encode_bins(raw) if self.edges else self._encode_values(raw)

    def _encode_bins(self, raw: ArrayLike) -> NDArray[np.int64]:
        cells = np.asarray(raw)
        if cells.dtype.kind not in "iuf":
            self._refuse(
                np.array([not (_missing(cell) or _is_number(cell)) for cell in cells], dtype=np.bool_),
                "not a number (value withheld); write it with the digits 0 to 9 and a decimal point",
            )
            cells = np.array([math.nan if _missing(cell) else float(cell) for cell in cells])
        numbers = cells.astype(np.float64)
        self._refuse(np.isnan(numbers), "missing, and a continuous column cannot be missing; leave the node out")
        if self.whole:
            self._refuse(np.floor(numbers) != numbers, "not a whole number (value withheld); count whole ones")
        low, high = self.edges[0], self.edges[-1]
        self._refuse(
            (numbers < low) | (numbers > high),
            f"outside the declared range {low:g}..{high:g} (value withheld); widen the range or correct the record",
        )
        bins = np.searchsorted(np.asarray(self.edges), numbers, side="right") - 1
        return np.minimum(bins, self.domain_size - 1)

    def _encode_values(self, raw: ArrayLike) -> NDArray[np.int64]:
        code_of = {value: code for code, value in enumerate(self.values)}
        cells = np.asarray(raw, dtype=object)
        given = np.asarray(raw)
        if given.dtype.kind in "biuf":  # look each number up once
            numbers, places = np.unique(given, return_inverse=True)
            codes = np.array([_code(value, code_of) for value in numbers], dtype=np.int64)[places]
        else:
            codes = np.array([_code(value, code_of) for value in cells], dtype=np.int64)
        self._refuse(
            codes < 0,
            f"not one of the {self.domain_size} declared values (value withheld); {_remedy(cells, codes < 0)}",
        )
        return codes

    def _refuse(self, wrong: NDArray[np.bool_], reason: str) -> None:
        if wrong.any():
            raise DomainError(f"column '{self.name}', row {int(np.argmax(wrong)) + 1}: {reason}")


@dataclass(frozen=True, kw_only=True)
class FeatureSchema:
    """Names and domains of all features, and the classes of the label.

    Args:
        columns: raw columns, in order; none where the label alone is collected.
        classes: names of the label's classes, in the order of their codes.
        group: number of adjacent binary columns that are merged into one feature by OR (the paper's d to d'); 1 merges
            nothing.
        note: origin of the schema, for its readers.
        texts: texts of the questions for participants, by language; a campaign checks them.
        public: columns that are known without asking: never asked, in no report, and no part of a guarantee. They are
            sorted by name.

    >>> schema = FeatureSchema.binary(1433, classes=["theory", "systems"], group=25)
    >>> schema.num_features, schema.domain_sizes[:3]
    (58, (2, 2, 2))
    >>> FeatureSchema(classes=("no", "yes")).num_features
    0
    """

    columns: tuple[Column, ...] = ()
    classes: tuple[str, ...]
    group: int = 1
    note: str = ""
    texts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    public: tuple[PublicColumn, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "public", tuple(sorted(self.public, key=lambda column: column.name)))
        _check_texts("a class", self.classes)
        _check_texts("the note", (self.note,))
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise SchemaError(f"classes are {str(list(self.classes))[:200]}: declare 2 or more, all different")
        _refuse_look_alikes("the classes", self.classes)
        if "" in self.classes:
            raise SchemaError("a class without a name would read as a missing label: give it one")
        if twice := [name for name, times in Counter(self._column_names).items() if times > 1]:
            raise SchemaError(f"column '{twice[0]}' is declared twice")
        _refuse_look_alikes("the columns", self._column_names)
        check_not_asked(self._column_names, self.public)
        if told := [column.name for column in self.public if column.kind == LINK]:
            raise SchemaError(
                f"public column '{told[0]}': its kind is '{LINK}'; what is known about links is in the table of links"
            )
        _refuse_look_alikes("the public columns", [column.name for column in self.public])
        if self.group < 1:
            raise SchemaError(f"group is {self.group}: merge 1 column (none) or more")
        if self.group > 1 and not self.columns:
            raise SchemaError(f"group is {self.group}, but there are no columns to merge: leave it out")
        if self.group > 1 and any(column.domain_size != 2 for column in self.columns):
            raise SchemaError(f"group is {self.group}, but only binary columns can be merged by OR")

    @classmethod
    def binary(cls, count: int, *, classes: Sequence[str], group: int = 1, prefix: str = "x") -> FeatureSchema:
        """Make a schema of `count` binary columns named prefix0, prefix1, ..."""
        columns = tuple(Column(name=f"{prefix}{i}") for i in range(count))
        return cls(columns=columns, classes=tuple(classes), group=group)

    @classmethod
    def binned(cls, count: int, *, classes: Sequence[str], edges: Sequence[float], prefix: str = "x") -> FeatureSchema:
        """Make a schema of `count` numeric columns with the same public bins, such as coordinates of an embedding.

        >>> schema = FeatureSchema.binned(2, classes=["no", "yes"], edges=[-1, 0, 1])
        >>> schema.encode({"x0": [-0.5], "x1": [1.0]}).tolist()
        [[0, 1]]
        """
        columns = tuple(Column(name=f"{prefix}{i}", edges=tuple(map(float, edges))) for i in range(count))
        return cls(columns=columns, classes=tuple(classes))

    def _repr_html_(self) -> str:
        sizes = Counter(self.domain_sizes)
        domains = ", ".join(f"{count} with {size} values each" for size, count in sorted(sizes.items()))
        facts = {"classes": f"{self.num_classes}: {listed(self.classes)}", "features": domains or "none"}
        if self.columns:
            facts["names"] = listed(self.feature_names)
        return html_table("Schema", facts | ({"note": self.note} if self.note else {}))

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the reported features: columns, or 'first..last' of a group."""
        groups = self._groups()
        return tuple(g[0].name if len(g) == 1 else f"{g[0].name}..{g[-1].name}" for g in groups)

    @cached_property
    def domain_sizes(self) -> tuple[int, ...]:
        """Number of values of each reported feature, gamma_i."""
        return tuple(group[0].domain_size for group in self._groups())

    @cached_property
    def code_names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the codes of each reported feature."""
        return tuple(group[0].code_names if len(group) == 1 else ("none", "any") for group in self._groups())

    @property
    def num_features(self) -> int:
        """Number of reported features: d, or d' where columns are merged."""
        return len(self.domain_sizes)

    @property
    def num_classes(self) -> int:
        """Number of classes, c."""
        return len(self.classes)

    @property
    def code_dtype(self) -> type[np.uint8] | type[np.uint16]:
        """Smallest type for all codes: a byte per value unless a domain exceeds 256 values."""
        return np.uint8 if max(self.domain_sizes, default=0) <= 256 else np.uint16

    @property
    def label_alone(self) -> FeatureSchema:
        """The same schema of a collection that asks for no features: without columns, and without texts about them."""
        texts = dict(self.texts)
        for language, said in texts.items():
            if isinstance(said, Mapping) and isinstance(questions := said.get("questions"), Mapping):
                left = {name: text for name, text in questions.items() if name not in self._column_names}
                texts[language] = {**said, "questions": left}
        return replace(self, columns=(), group=1, texts=texts)

    @property
    def _column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _groups(self) -> list[tuple[Column, ...]]:
        starts = range(0, len(self.columns), self.group)
        return [self.columns[start : start + self.group] for start in starts]

    def encode(self, table: Mapping[str, ArrayLike] | Any) -> NDArray[np.unsignedinteger[Any]]:
        """Encode a raw table: return the codes of the reported features, [records, features].

        Without declared columns, the result has no features and as many rows as the table.

        Args:
            table: a DataFrame, or a mapping from column name to values.

        >>> schema = FeatureSchema.binary(4, classes=["a", "b"], group=2)
        >>> schema.encode({"x0": [0, 0], "x1": [1, 0], "x2": [0, 0], "x3": [0, 0]}).tolist()
        [[1, 0], [0, 0]]
        """
        for column in self.columns:
            if column.name not in table:
                raise SchemaError(f"the table has no column '{column.name}', which the schema declares")
        codes = [column.encode(table[column.name]) for column in self.columns]
        for column, column_codes in zip(self.columns, codes, strict=True):
            if len(column_codes) != len(codes[0]):
                raise SchemaError(f"column '{column.name}' has {len(column_codes)} rows, others {len(codes[0])}")
        if not codes:
            rows = max((len(np.asarray(table[name], dtype=object)) for name in table), default=0)
            return np.zeros((rows, 0), dtype=self.code_dtype)
        return self.merge(np.stack(codes, axis=1).astype(self.code_dtype))

    def merge(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Merge adjacent binary columns by OR: codes [records, columns] become [records, features]."""
        if codes.shape[1] != len(self.columns):
            raise SchemaError(f"{codes.shape[1]} columns where the schema declares {len(self.columns)}")
        if self.group == 1:
            return codes
        return np.maximum.reduceat(codes, range(0, len(self.columns), self.group), axis=1)

    def encode_labels(self, raw: ArrayLike, *, name: str = "label") -> NDArray[np.int64]:
        """Return class codes, [records]; a missing label (None, NaN or empty) becomes NO_LABEL.

        >>> FeatureSchema.binary(1, classes=["no", "yes"]).encode_labels(["yes", None, "no"]).tolist()
        [1, -1, 0]
        """
        cells = np.asarray(raw, dtype=object)
        code_of = {value: code for code, value in enumerate(self.classes)}
        codes = np.array([NO_LABEL if _missing(cell) else _code(cell, code_of, -2) for cell in cells], dtype=np.int64)
        if (wrong := codes == -2).any():
            raise DomainError(
                f"column '{name}', row {int(np.argmax(wrong)) + 1}: not one of the declared classes "
                f"{list(self.classes)} (value withheld); {_remedy(cells, wrong)}"
            )
        return codes

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML."""
        document: dict[str, object] = {"note": self.note} if self.note else {}
        document["classes"] = list(self.classes)
        if self.group > 1:
            document["group"] = self.group
        if self.columns:
            document["columns"] = [_column_to_toml(column) for column in self.columns]
        if self.public:
            document["public"] = [column.document for column in self.public]
        if self.texts:
            document["texts"] = dict(self.texts)
        write_atomically(Path(path), tomli_w.dumps(document), public=True)

    @classmethod
    def load(cls, path: str | Path) -> FeatureSchema:
        """Read a schema from TOML; an unknown key is refused. `classes` alone is a schema without features."""
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise SchemaError(f"{path} is not UTF-8: save it as UTF-8") from None
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise SchemaError(f"{path} cannot be read as a schema: {error}") from error
        _refuse_unknown(document, {"note", "classes", "group", "columns", "texts", "public"}, str(path))
        document = {"columns": [], "public": []} | document
        for key in ("classes", "columns", "public"):
            if not isinstance(document.get(key), list):
                raise SchemaError(f"{path}: '{key}' is missing or not a list")
        if not isinstance(document.get("texts", {}), dict):
            raise SchemaError(f"{path}: 'texts' must be a table of languages, such as [texts.de]")
        if type(document.get("group", 1)) is not int:
            raise SchemaError(f"{path}: 'group' must be a whole number")
        return cls(
            columns=tuple(_column_from_toml(entry, str(path)) for entry in document["columns"]),
            classes=tuple(_text(name) for name in document["classes"]),
            group=document.get("group", 1),
            note=str(document.get("note", "")),
            texts=document.get("texts", {}),
            public=tuple(_public_from_toml(entry, str(path)) for entry in document["public"]),
        )


def propose_schema(public_sample: Mapping[str, ArrayLike] | Any, *, label: str, bins: int = 4) -> FeatureSchema:
    """Draft a schema from *public* sample data, for a person to review and widen.

    Never pass private records: the schema contains their ranges, quantiles and values. Its note says that it was made
    from a public sample.

    Args:
        public_sample: a DataFrame, or a mapping from column name to values.
        label: name of the column with the classes.
        bins: number of bins of a continuous column.

    >>> draft = propose_schema({"age": [20.5, 30, 40, 50, 60], "smoker": ["no", "yes", "no", "no", "no"],
    ...                         "ill": ["n", "y", "n", "y", "n"]}, label="ill", bins=2)
    >>> [(column.name, column.domain_size) for column in draft.columns], draft.classes
    ([('age', 2), ('smoker', 2)], ('n', 'y'))
    """
    if label not in public_sample:
        raise SchemaError(f"the sample has no column '{label}' to take the classes from")
    columns = [_propose_column(str(name), public_sample[name], bins) for name in public_sample if name != label]
    labels = np.asarray(public_sample[label], dtype=object)
    return FeatureSchema(
        columns=tuple(columns),
        classes=tuple(sorted({_text(value) for value in labels if not _missing(value)})),
        note=f"Proposed from a public sample of {len(labels)} rows. Review it; never propose one from private data.",
    )


def _propose_column(name: str, raw: ArrayLike, bins: int) -> Column:
    """Return bins at quantiles for a column of many numbers, and the list of values otherwise."""
    cells = [value for value in np.asarray(raw, dtype=object) if not _missing(value)]
    texts = sorted({_text(value) for value in cells})
    try:
        numbers = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if len(numbers) == 0 or len(texts) <= max(bins, 2):
        return Column(name=name, values=tuple(texts) if len(texts) > 1 else _BINARY)
    shares = np.linspace(0, 1, bins + 1)
    edges = np.quantile(numbers, shares)
    if not (np.diff(edges) > 0).all():  # many rows share a value: use quantiles of the distinct values instead
        edges = np.quantile(np.unique(numbers), shares)
    rounded = np.unique(np.round(edges))
    if (np.floor(numbers) == numbers).all() and len(rounded) > 2:
        return Column(name=name, edges=tuple(rounded.tolist()), whole=True)
    return Column(name=name, edges=tuple(edges.tolist()))


def _check_texts(where: str, texts: Sequence[str]) -> None:
    """Refuse texts that could mislead a reader, such as one with a newline."""
    for text in texts:
        if character := misleading_character(text):
            raise SchemaError(f"{where} holds {character}, a control or invisible character: remove it")


def _refuse_look_alikes(where: str, texts: Sequence[str]) -> None:
    """Refuse two texts that a person cannot tell apart, such as one with a space more."""
    if alike := look_alikes(texts):
        raise SchemaError(f"{where} {alike[0]!a} and {alike[1]!a} look alike: they are one, so declare it once")


def _code(value: object, code_of: Mapping[str, int], unknown: int = -1) -> int:
    if isinstance(value, (bool, np.bool_)):  # the schema may declare True and False, or 1 and 0
        return code_of.get(str(value), code_of.get(str(int(value)), unknown))
    return code_of.get(_text(value), unknown)


def _remedy(cells: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Return what helps against the first wrong cell: a blank around it is not seen in an office."""
    first = cells[np.argmax(wrong)] if wrong.any() else None
    if isinstance(first, str) and first != first.strip():
        return "it begins or ends with a blank: remove it"
    return "declare it or correct the record"


def _missing(value: object) -> bool:
    """Tell whether a cell is empty: None, NaN, an empty text, or a missing value of pandas."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value == ""


def _is_number(value: object) -> bool:
    """Tell whether a cell is a number, or a text that both clients read as one: `float` takes ٣ and 1_000 too."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value) is not None
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def _text(value: object) -> str:
    """Return a value as text; 1 and 1.0 have the same text."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _column_to_toml(column: Column) -> dict[str, object]:
    if column.edges:
        return {"name": column.name, "edges": list(column.edges)} | ({"whole": True} if column.whole else {})
    return {"name": column.name} if column.values == _BINARY else {"name": column.name, "values": list(column.values)}


def _column_from_toml(entry: object, path: str) -> Column:
    if not isinstance(entry, dict) or "name" not in entry:
        raise SchemaError(f"{path}: every column needs a name")
    _refuse_unknown(entry, {"name", "values", "edges", "whole"}, f"{path}, column '{entry['name']}'")
    if "values" in entry and "edges" in entry:
        raise SchemaError(f"{path}, column '{entry['name']}': give values or edges, not both")
    for key in ("values", "edges"):
        if key in entry and not (isinstance(entry[key], list) and entry[key]):
            raise SchemaError(f"{path}, column '{entry['name']}': {key} must be a list, not empty")
    try:
        edges = tuple(float(edge) for edge in entry.get("edges", ()))
    except (TypeError, ValueError):
        raise SchemaError(f"{path}, column '{entry['name']}': edges must be numbers") from None
    if not isinstance(entry.get("whole", False), bool):
        raise SchemaError(f"{path}, column '{entry['name']}': whole must be true or false")
    return Column(
        name=str(entry["name"]),
        values=tuple(_text(value) for value in entry.get("values", _BINARY)),
        edges=edges,
        whole=entry.get("whole", False),
    )


def _public_from_toml(entry: object, path: str) -> PublicColumn:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise SchemaError(f'{path}: every public column needs a name: [[public]] with name = "village"')
    _refuse_unknown(entry, {"name", "kind"}, f"{path}, public column '{entry['name']}'")
    return PublicColumn(name=entry["name"], kind=entry.get("kind"))


def _refuse_unknown(document: Mapping[str, object], known: set[str], where: str) -> None:
    if unknown := sorted(set(document) - known):
        raise SchemaError(f"{where}: unknown key '{unknown[0]}'; known are {', '.join(sorted(known))}")
