"""A campaign: the public document that fixes what is asked, and the reports that answer it."""

from veilgraph.campaign.document import Campaign

__all__ = ["Campaign"]
