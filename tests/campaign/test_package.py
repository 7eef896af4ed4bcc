"""The package's public names need neither torch nor the collector's libraries."""

from __future__ import annotations

from tests.support.blocked_imports import run_without
from veilgraph import campaign

IMPORT_NAMES = (
    "from veilgraph.campaign import *; print(Campaign.__name__, Report.__name__, 'scipy.stats' in sys.modules)"
)


def test_the_names_are_sorted_and_there() -> None:
    assert sorted(campaign.__all__) == campaign.__all__
    assert all(hasattr(campaign, name) for name in campaign.__all__)


def test_importing_them_loads_no_optional_library() -> None:
    result = run_without({"torch", "fastapi", "pandas", "sqlalchemy"}, IMPORT_NAMES)
    assert result.stdout.split() == ["Campaign", "Report", "False"], result.stderr
