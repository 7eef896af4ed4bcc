"""The report of a run: one self-contained page, and its main figure alone."""

from veilgraph.pages.run_figures import accuracy_figure
from veilgraph.pages.run_page import render_report

__all__ = ["accuracy_figure", "render_report"]
