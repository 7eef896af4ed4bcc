"""A report is checked against what is asked now, not against what will be asked."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.campaigns import GRAPH, campaign, classes
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.errors import Refusal
from veilgraph.collector.validation import ReportValidator

SERIES = campaign(classes(3), epsilon_y=1.0, rounds=3)
CREDENTIALS = Credentials(keys=[new_key()], admin_token=new_role_token(Role.OWNER))
NODE = GRAPH.names[0]


def entry(number: int) -> tuple[str, bytes]:
    """Return a report of a round as the body of a request, and as a line of a batch."""
    report = Report(campaign=SERIES.id, node=NODE, label=1, number=number)
    token = token_for(CREDENTIALS.keys[0], SERIES.id, NODE)
    return report.to_json(), json.dumps({"token": token, "report": report.document}).encode()


WAYS: dict[str, Callable[[ReportValidator, int], Report]] = {
    "a request": lambda validator, number: validator.validate_body(NODE, entry(number)[0].encode()),
    "a batch": lambda validator, number: validator.validate_entry(entry(number)[1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("asked", "last"), [(SERIES, 1), (SERIES.revise(open_round=2), 2)])
def test_a_report_of_a_round_that_is_not_open_yet_is_refused(way: str, asked: Campaign, last: int) -> None:
    """A device that answers ahead would spend a round's budget before its person could read what is asked."""
    validator = ReportValidator(campaign=asked, nodes={NODE}, credentials=CREDENTIALS, clock=lambda: 0.0)
    for number in range(1, 4):
        if number <= last:
            assert WAYS[way](validator, number).number == number
        else:
            with pytest.raises(Refusal) as refused:
                WAYS[way](validator, number)
            assert refused.value.detail == f"round {number} is not open yet"
