"""The report of a run: one self-contained page, and its main figure alone."""

from veilgraph.experiments.report.figures import accuracy_figure
from veilgraph.experiments.report.page import render_report

__all__ = ["accuracy_figure", "render_report"]
