"""What the OpenAPI document says of each route: its input exactly, and every answer that it can give."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import LONGEST_NODE
from veilgraph.collector.middleware import MOST_IN_A_BATCH

Responses = dict[int | str, dict[str, Any]]

_REFUSED = {
    "type": "object",
    "required": ["error", "detail"],
    "properties": {"error": {"type": "string"}, "detail": {"type": "string"}},
}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def _responses(granted: dict[int, dict[str, Any] | None], *refused: int) -> Responses:
    """Statuses with the JSON schema of what is granted, and those of refusals."""
    # Any route can be asked too often, and 500 is there for what nobody thought of.
    refusals = dict.fromkeys((*refused, 429, 500), _REFUSED)
    return {
        status: {"description": HTTPStatus(status).phrase}
        | ({"content": {"application/json": {"schema": schema}}} if schema else {})
        for status, schema in (refusals | granted).items()
    }


CAMPAIGN = _responses({200: {"type": "object"}, 304: None})
HEALTH = _responses({200: {"type": "object", "properties": {"status": _TEXT}}}, 503)
STATUS = _responses(
    {
        200: {
            "type": "object",
            "required": ["campaign", "closes", "open"],
            "properties": {
                "campaign": _TEXT,
                "closes": _TEXT,
                "open": {"type": "boolean"},
                "nodes": _COUNT,
                "reports": _COUNT,
                "refused": {"type": "object", "additionalProperties": _COUNT},
            },
        }
    },
    401,
    503,
)
METRICS = _responses({200: None}, 401) | {200: {"description": "OK", "content": {"text/plain": {"schema": _TEXT}}}}

_SUBMISSION_REFUSALS = (400, 408, 410, 413, 422, 503, 507)
_STORED = {"type": "object", "required": ["node", "status"], "properties": {"node": _TEXT, "status": _TEXT}}
_RESULTS = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["node", "status"],
                "properties": {
                    "node": {"type": ["string", "null"]},
                    "status": {"type": "integer"},
                    "reason": _TEXT,
                    "detail": _TEXT,
                },
            },
        }
    },
}


def submit_one(campaign: Campaign) -> dict[str, Any]:
    """Of PUT /v1/reports/{node}."""
    return {
        "responses": _responses({200: _STORED, 201: _STORED}, 401, 404, 409, *_SUBMISSION_REFUSALS),
        "openapi_extra": {
            "requestBody": _body(report_schema(campaign)),
            "parameters": [_authorization("the node's token: Bearer TOKEN")],
        },
    }


def submit_many(campaign: Campaign) -> dict[str, Any]:
    """Of POST /v1/reports."""
    entry = {
        "type": "object",
        "required": ["token", "report"],
        "additionalProperties": False,
        "properties": {"token": _TEXT, "report": report_schema(campaign)},
    }
    schema = {
        "type": "object",
        "required": ["reports"],
        "additionalProperties": False,
        "properties": {"reports": {"type": "array", "items": entry, "maxItems": MOST_IN_A_BATCH}},
    }
    return {
        "responses": _responses({200: _RESULTS}, *_SUBMISSION_REFUSALS),
        "openapi_extra": {"requestBody": _body(schema)},
    }


def report_schema(campaign: Campaign) -> dict[str, Any]:
    """The JSON schema of a report: every feature within its own domain."""
    sizes = campaign.schema.domain_sizes
    features = {
        "type": "array",
        "prefixItems": [_code(size) for size in sizes],
        "minItems": len(sizes),
        "maxItems": len(sizes),
    }
    label = _code(campaign.schema.num_classes)
    return {
        "type": "object",
        "required": ["campaign", "node", "features", "label"],
        "additionalProperties": False,
        "properties": {
            "campaign": {"const": campaign.id},
            "node": {"type": "string", "minLength": 1, "maxLength": LONGEST_NODE},
            "features": _optional(features, asked=campaign.feature_mechanism is not None),
            "label": _optional(label, asked=campaign.label_mechanism is not None),
        },
    }


def _code(size: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": size - 1}


def _optional(schema: dict[str, Any], *, asked: bool) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if asked else {"type": "null"}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _authorization(description: str) -> dict[str, Any]:
    return {
        "name": "Authorization",
        "in": "header",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }
