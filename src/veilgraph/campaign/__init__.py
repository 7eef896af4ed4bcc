"""A campaign: the public document that people answer, their reports, and the graph that the reports make.

`veilgraph.campaign.screening` finds implausible reports, and `veilgraph.campaign.plausibility` implausible shares of
classes. They are not imported here, because they load scipy's statistics.
"""

from veilgraph.campaign.assemble import ReportCodes, check_graph, perturbed_graph, read_codes, reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.report import Report, check_node
from veilgraph.campaign.tokens import check_token, new_key, read_keys, token_for

__all__ = [
    "Campaign",
    "CampaignBudget",
    "Notice",
    "Report",
    "ReportCodes",
    "check_graph",
    "check_node",
    "check_token",
    "new_key",
    "perturbed_graph",
    "read_codes",
    "read_keys",
    "reports_of",
    "token_for",
]
