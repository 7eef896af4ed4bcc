"""Routes for participants beside their report: ask whether there is one, withdraw or object, and check a receipt."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request

from veilgraph.campaign.receipt import Receipt, parse_receipt
from veilgraph.collector import openapi
from veilgraph.collector.auth import bearer_token
from veilgraph.collector.collector import SharedParts
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.validation import ReportValidator, parse_body
from veilgraph.errors import ReportError

# Twice the longest receipt: a name of 256 characters in JSON's longest notation, an id, a hash, a time, a signature.
_MAX_RECEIPT_BYTES = 8192


def add_participant_rights(app: FastAPI, *, validator: ReportValidator, shared: SharedParts) -> None:
    """Add the routes; they work after the campaign has closed, too."""

    @app.get("/v1/reports/{node:path}", summary="Whether a node has reported", **openapi.has_reported())
    async def has_reported(node: str, request: Request) -> openapi.ReportedBody:
        campaign = validator.campaign
        validator.authenticate(node, bearer_token(request))
        standing, rounds = await asyncio.to_thread(
            shared.store.reports.has_reported, campaign.series, node, wave=campaign.number_now
        )
        return {"status": standing.value, "rounds": rounds}

    @app.delete("/v1/reports/{node:path}", summary="Withdraw a node's reports, or object for it", **openapi.withdraw())
    async def withdraw(node: str, request: Request) -> openapi.WithdrawnBody:
        campaign_id = validator.campaign.series  # all waves of a series about neighbours
        validator.authenticate(node, bearer_token(request))
        hour, is_new = await shared.writer.withdraw(campaign_id, node)
        receipt = validator.credentials.withdrawal_receipt(campaign_id, node, hour=hour)
        return {
            "node": node,
            "status": "withdrawn" if is_new else "same",
            "receipt": openapi.withdrawal_receipt(receipt),
        }

    @app.post("/v1/receipts", summary="Check a receipt, and what is stored now", **openapi.check_receipt())
    async def check_receipt(request: Request) -> openapi.StandingBody:
        seconds = shared.limits.body_seconds
        async with shared.bodies.receive(request, max_bytes=_MAX_RECEIPT_BYTES, seconds=seconds) as body:
            try:
                receipt = parse_receipt(parse_body(body))
            except ReportError as error:
                raise Refusal(RefusalReason.NOT_VALID, str(error)) from None
        # The signature first: nothing is said about a node to someone without its receipt.
        campaign = validator.campaign
        before = campaign.asked.documents.earlier
        if not receipt.is_signed_by(validator.credentials.keys) or receipt.campaign not in (campaign.id, *before):
            raise Refusal(RefusalReason.WRONG_RECEIPT)
        expected = receipt.report_sha256 if isinstance(receipt, Receipt) else None
        standing = await asyncio.to_thread(
            lambda: shared.store.reports.standing(campaign.series, receipt.node, report_sha256=expected)
        )
        return {"status": standing.value}
