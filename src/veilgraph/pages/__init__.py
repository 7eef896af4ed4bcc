"""What people look at: the page of a run, the page of the paper's experiments, their figures and tables."""

from veilgraph.pages.curve_page import curve_figure, render_curve_page
from veilgraph.pages.run_page import accuracy_figure, render_run_page

__all__ = ["accuracy_figure", "curve_figure", "render_curve_page", "render_run_page"]
