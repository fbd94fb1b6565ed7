"""People and what they are asked: who they are, who stands in for whom, what waits for them, what they answered.

`find_people` fills the groups of an approval, through a `Directory` that an application may bring. Requests between the
engine's values and their rows are in `assent.approvals.requests`.
"""

from assent.approvals.chains import Chain, ChainStep, keep_chain, list_chains, read_chain
from assent.approvals.delegations import (
    DELEGATE,
    KeptDelegation,
    NewDelegation,
    delegate,
    list_delegations,
    load_delegations,
    revoke,
)
from assent.approvals.directory import Directory, Member, MembersDirectory, OrgRole, OrgUser
from assent.approvals.evidence import Evidence, evidence_of_entity, evidence_of_request
from assent.approvals.inbox import InboxCounts, InboxItem, InboxPage, InboxQuery, count_inbox, read_inbox
from assent.approvals.picking import Asked
from assent.approvals.resolve import APPROVERS_MAX, find_people

__all__ = [
    "APPROVERS_MAX",
    "DELEGATE",
    "Asked",
    "Chain",
    "ChainStep",
    "Directory",
    "Evidence",
    "InboxCounts",
    "InboxItem",
    "InboxPage",
    "InboxQuery",
    "KeptDelegation",
    "Member",
    "MembersDirectory",
    "NewDelegation",
    "OrgRole",
    "OrgUser",
    "count_inbox",
    "delegate",
    "evidence_of_entity",
    "evidence_of_request",
    "find_people",
    "keep_chain",
    "list_chains",
    "list_delegations",
    "load_delegations",
    "read_chain",
    "read_inbox",
    "revoke",
]
