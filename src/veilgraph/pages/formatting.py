"""Numbers, and names of methods, as text for people."""

from __future__ import annotations

import math
from typing import Any

from veilgraph.models.registry import METHODS
from veilgraph.privacy.epsilon import show_epsilon
from veilgraph.privacy.mechanisms.wire import in_100


def method_title(key: str) -> str:
    """Return the title of a method; an unknown method keeps its key."""
    return METHODS[key].title if key in METHODS else key


def short_title(key: str) -> str:
    """Return the short title of a method, for a column head or a legend."""
    return METHODS[key].short_title if key in METHODS else key


def method_description(key: str) -> str:
    """Describe the inputs of a method in one line; empty for an unknown method."""
    return METHODS[key].description if key in METHODS else ""


def epsilon_text(epsilon: float | str) -> str:
    """Return an epsilon with four decimals, rounded up; "not private" (infinity in JSON) is text already."""
    return epsilon if isinstance(epsilon, str) else show_epsilon(epsilon)


def number_text(value: float | None) -> str:
    """Return a number without trailing zeros, or a dash for None.

    >>> number_text(0.5), number_text(3.0), number_text(None), number_text(math.inf)
    ('0.5', '3', '–', '∞')
    """
    return "–" if value is None else "∞" if math.isinf(value) else f"{value:g}"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal and a no-break space.

    >>> percent(0.87361) == "87.4\N{NO-BREAK SPACE}%"
    True
    """
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def spread_text(mean: float, std: float | None) -> str:
    """Return mean and standard deviation in percent, joined by no-break spaces.

    >>> spread_text(0.557, 0.014).split(), spread_text(0.5, None)
    (['55.7', '±', '1.4'], '50.0')
    """
    return unbroken(f"{100 * mean:.1f}" if std is None else f"{100 * mean:.1f} ± {100 * std:.1f}")


def accuracy_text(method: dict[str, Any]) -> str:
    """Return mean and standard deviation of one method of a run, or the mean and "one seed"; "not run" without one."""
    if method["accuracy_mean"] is None:
        return unbroken("not run")
    deviation = method["accuracy_std"]
    spread = "(one seed)" if deviation is None else f"± {100 * deviation:.1f}"
    return unbroken(f"{percent(method['accuracy_mean'])} {spread}")


def unbroken(value: object) -> str:
    """Return the text of a value with no-break spaces, so that a page keeps it on one line."""
    return str(value).replace(" ", "\N{NO-BREAK SPACE}")


def label_report_in_words(design: dict[str, Any]) -> str:
    """Return in words what a report says about the label.

    Args:
        design: the facts of `veilgraph.experiments.results.label_facts`.

    >>> label_report_in_words({"classes": 10, "set_size": 3, "names_true_class": 0.538})
    'each report names 3 of 10 classes, the true one among them with a chance of 53.8 in 100'
    """
    truth = f"with a chance of {truth_chance(design)}"
    if design["set_size"] > 1:
        return f"each report names {design['set_size']} of {design['classes']} classes, the true one among them {truth}"
    return f"each report names one of {design['classes']} classes, the true one {truth}"


def truth_chance(design: dict[str, Any]) -> str:
    """Return the chance that a report names the true class, as a campaign's texts write it."""
    return in_100(design["names_true_class"])
