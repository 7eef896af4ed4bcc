"""OpenAPI descriptions of the routes: the exact input, and every response that a route can give."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from veilgraph.campaign import Campaign
from veilgraph.campaign.receipt import Receipt, WithdrawalReceipt
from veilgraph.campaign.report import MAX_NODE_LENGTH

Responses = dict[int | str, dict[str, Any]]


class RefusedBody(TypedDict):
    """Body of a refusal: a `RefusalReason`, and what is wrong."""

    error: str
    detail: str


class HealthBody(TypedDict):
    """Body of GET /health."""

    status: str


class StatusBody(TypedDict):
    """Body of GET /v1/status; counts are for the administration only."""

    campaign: str
    closes: str
    open: bool
    purged: bool
    nodes: NotRequired[int]
    reports: NotRequired[int]
    refused: NotRequired[dict[str, int]]


class ReceiptBody(TypedDict):
    """Signed statement that the collector stored a report: `veilgraph.campaign.receipt.Receipt`."""

    campaign: str
    node: str
    report_sha256: str
    stored: str
    signature: str


class CountBody(TypedDict):
    """Body of GET /v1/contact-names."""

    people: int


class StoredBody(TypedDict):
    """Body of PUT /v1/reports/{node}."""

    node: str
    status: str
    receipt: ReceiptBody


class WithdrawalReceiptBody(TypedDict):
    """Signed statement that a node's reports are deleted: `veilgraph.campaign.receipt.WithdrawalReceipt`."""

    campaign: str
    node: str
    withdrawn: str
    signature: str


class WithdrawnBody(TypedDict):
    """Body of DELETE /v1/reports/{node}: `withdrawn` now, or the `same` as before."""

    node: str
    status: str
    receipt: WithdrawalReceiptBody


class StandingBody(TypedDict):
    """Body of POST /v1/receipts: what the store holds of the node now."""

    status: str


class ReportedBody(TypedDict):
    """Body of GET /v1/reports/{node}: whether it has reported, and in which rounds of a series."""

    status: str
    rounds: list[int]


class BatchResult(TypedDict):
    """Result of one report of a batch: a receipt if it is stored, else the reason.

    The node is named only to senders who gave its token.
    """

    node: str | None
    status: int
    receipt: NotRequired[ReceiptBody]
    reason: NotRequired[str]
    detail: NotRequired[str]


class BatchBody(TypedDict):
    """Body of POST /v1/reports: results in the order of the reports."""

    results: list[BatchResult]


def receipt(signed: Receipt) -> ReceiptBody:
    """Return a receipt as it stands in a body."""
    return cast(ReceiptBody, signed.document)


def withdrawal_receipt(signed: WithdrawalReceipt) -> WithdrawalReceiptBody:
    """Return the receipt of a withdrawal as it stands in a body."""
    return cast(WithdrawalReceiptBody, signed.document)


def _responses(granted: dict[int, Any], *refused: int) -> Responses:
    """Describe the responses of a route.

    Args:
        granted: types of the JSON bodies by status; None for a response without JSON.
        refused: statuses of refusals, besides those that every route can give.
    """
    # Every route has a rate limit, and can fail in an unexpected way.
    bodies = dict.fromkeys((*refused, 429, 500), RefusedBody) | granted
    return {
        status: {"description": HTTPStatus(status).phrase} | ({"model": body} if body else {})
        for status, body in bodies.items()
    }


CAMPAIGN = _responses({200: dict[str, Any], 304: None}, 410)
HEALTH = _responses({200: HealthBody}, 503)
STATUS = _responses({200: StatusBody}, 401, 503)
PUBLISHED = _responses({200: None, 206: None, 304: None, 416: None}, 404)
for _status in (200, 206):
    PUBLISHED[_status]["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
CONTACT_NAMES = _responses({200: dict[str, Any]}, 401, 404, 410)
METRICS = _responses({200: None}, 401, 503)
METRICS[200]["content"] = {"text/plain": {"schema": {"type": "string"}}}

_SUBMISSION_REFUSALS = (400, 408, 410, 413, 422, 503, 507)
# The endpoint of PUT takes the request alone, so that FastAPI does not see its path.
_NODE_IN_PATH = {"name": "node", "in": "path", "required": True, "schema": {"type": "string", "title": "Node"}}
_NODE_TOKEN = {
    "name": "Authorization",
    "in": "header",
    "required": True,
    "description": "the node's token: Bearer TOKEN",
    "schema": {"type": "string"},
}


def submit_one(campaign: Campaign) -> dict[str, Any]:
    """Describe PUT /v1/reports/{node}."""
    return {
        "responses": _responses({200: StoredBody, 201: StoredBody}, 401, 404, 409, *_SUBMISSION_REFUSALS),
        "openapi_extra": {"requestBody": _body(report_schema(campaign)), "parameters": [_NODE_IN_PATH, _NODE_TOKEN]},
    }


def has_reported() -> dict[str, Any]:
    """Describe GET /v1/reports/{node}."""
    return {
        "responses": _responses({200: ReportedBody}, 401, 404, 503),
        "openapi_extra": {"parameters": [_NODE_TOKEN]},
    }


def withdraw() -> dict[str, Any]:
    """Describe DELETE /v1/reports/{node}."""
    return {
        "responses": _responses({200: WithdrawnBody}, 401, 404, 503, 507),
        "openapi_extra": {"parameters": [_NODE_TOKEN]},
    }


def check_receipt() -> dict[str, Any]:
    """Describe POST /v1/receipts."""
    text = {"type": "string"}
    stored = _object(dict.fromkeys(("campaign", "node", "report_sha256", "stored", "signature"), text))
    withdrawn = _object(dict.fromkeys(("campaign", "node", "withdrawn", "signature"), text))
    return {
        "responses": _responses({200: StandingBody}, 400, 408, 413, 422, 503),
        "openapi_extra": {"requestBody": _body({"oneOf": [stored, withdrawn]})},
    }


def submit_many(campaign: Campaign, *, most: int) -> dict[str, Any]:
    """Describe POST /v1/reports, a batch of at most `most` reports."""
    entry = _object({"token": {"type": "string"}, "report": report_schema(campaign)})
    says = f"one line of JSON for each of at most {most} reports; the first has a token of its node"
    content = {"application/x-ndjson": {"itemSchema": entry, "schema": {"type": "string", "description": says}}}
    return {
        "responses": _responses({200: BatchBody}, 401, *_SUBMISSION_REFUSALS),
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def report_schema(campaign: Campaign) -> dict[str, Any]:
    """Return the JSON schema of a report, in which every feature has a domain of its own."""
    return _object({"campaign": {"const": campaign.id}, "node": _NODE, **campaign.asked.report_parts})


_NODE = {"type": "string", "minLength": 1, "maxLength": MAX_NODE_LENGTH}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}
