"""The dot plot of shares: every group and class, in words for screen readers too."""

from __future__ import annotations

from dataclasses import replace

from veilgraph.deploy.group_shares import GroupShares, Share
from veilgraph.pages.share_plot import share_plot

SHARE = Share(
    group=None,
    name="yes",
    people=100,
    reports=80,
    value=0.25,
    low=0.1,
    high=0.4,
    low_together=0.05,
    high_together=0.5,
    low_reporters=0.12,
    high_reporters=0.38,
    assisted=False,
)


def found(*shares: Share) -> GroupShares:
    return GroupShares(
        column="village",
        level=0.9,
        fewest=30,
        statements=len(shares),
        people=100,
        reports=80,
        shares=shares,
        unstated=0,
    )


def test_of_two_classes_the_second_is_drawn_for_each_group() -> None:
    rows = [replace(SHARE, group=group, name=name) for group in (None, "<North>") for name in ("no", "yes")]
    svg = share_plot(found(*rows), "Ever?")
    spoken = svg.split('aria-label="')[1].split('"')[0].replace("\N{NO-BREAK SPACE}", " ")
    assert spoken == ("Ever?. all people, yes: 25.0 %, 10.0 % to 40.0 %; &lt;North&gt;, yes: 25.0 %, 10.0 % to 40.0 %.")
    assert "&lt;North&gt;" in svg.split(">", 1)[1]
    assert "<North>" not in svg


def test_of_many_classes_the_six_largest_are_drawn() -> None:
    rows = [replace(SHARE, name=f"c{number}", value=number / 40) for number in range(9)]
    svg = share_plot(found(*rows), "Which?")
    drawn = [name for name in (f"c{number}" for number in range(9)) if f"● {name}" in svg]
    assert drawn == ["c3", "c4", "c5", "c6", "c7", "c8"]
