"""The participant's client: it turns a private record into one randomized report, with the standard library alone.

It does not trust the campaign: before it reads the record, it checks the campaign's id, its integer tables and the
guarantee that they give. It shares no code with the program that wrote the campaign.

Its files are short, to be read before they are trusted, and each imports earlier ones of this list only: `refusals`,
`words`, `epsilons`, `reading`, `mechanisms`, `series`, `lists`, `schema`, `record`, `store`, `published`, `once`,
`rounds`, `neighbours`, `question`, `campaign`, `kept`, `spending`, `answering`, `connection`, `sending`, `fetching`.
A campaign asks once (`once`), in rounds (`rounds`) or about neighbours (`neighbours`): one object for each. One file
to copy is made of them by `python -m veilgraph.client.one_file participant.py`; it needs Python 3.11 and nothing else.
"""

from veilgraph.client.answering import answer, answer_neighbours
from veilgraph.client.campaign import verify
from veilgraph.client.connection import Patience
from veilgraph.client.fetching import Fetched, fetch
from veilgraph.client.neighbours import turn_of
from veilgraph.client.published import Published
from veilgraph.client.question import DrawnReport, encode, randomize
from veilgraph.client.refusals import CampaignError, ClockWarning, DomainError, NoticeWarning, RunError, SendError
from veilgraph.client.sending import Receipt, WithdrawalReceipt, check_receipt, has_reported, send, withdraw
from veilgraph.client.spending import Answered, Ledger, answered, ledger, set_limit

__all__ = [
    "Answered",
    "CampaignError",
    "ClockWarning",
    "DomainError",
    "DrawnReport",
    "Fetched",
    "Ledger",
    "NoticeWarning",
    "Patience",
    "Published",
    "Receipt",
    "RunError",
    "SendError",
    "WithdrawalReceipt",
    "answer",
    "answer_neighbours",
    "answered",
    "check_receipt",
    "encode",
    "fetch",
    "has_reported",
    "ledger",
    "randomize",
    "send",
    "set_limit",
    "turn_of",
    "verify",
    "withdraw",
]
