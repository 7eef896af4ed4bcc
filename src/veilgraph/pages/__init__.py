"""What people look at: pages of a run, of the paper's experiments and of a campaign, their figures and tables.

Names are imported on first use: the summary of a campaign needs neither torch nor matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilgraph.pages.campaign_summary import render_summary
    from veilgraph.pages.curve_page import curve_figure, render_curve_page
    from veilgraph.pages.run_page import accuracy_figure, render_run_page

_HOME = {
    "accuracy_figure": "run_page",
    "curve_figure": "curve_page",
    "render_curve_page": "curve_page",
    "render_run_page": "run_page",
    "render_summary": "campaign_summary",
}

__all__ = ["accuracy_figure", "curve_figure", "render_curve_page", "render_run_page", "render_summary"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
