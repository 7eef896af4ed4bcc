"""The report of a run: one self-contained page."""

from veilgraph.experiments.report.page import render_report

__all__ = ["render_report"]
