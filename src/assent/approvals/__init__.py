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
from assent.approvals.resolve import APPROVERS_MAX, Asked, find_people

__all__ = [
    "APPROVERS_MAX",
    "DELEGATE",
    "Asked",
    "Chain",
    "ChainStep",
    "Directory",
    "KeptDelegation",
    "Member",
    "MembersDirectory",
    "NewDelegation",
    "OrgRole",
    "OrgUser",
    "delegate",
    "find_people",
    "keep_chain",
    "list_chains",
    "list_delegations",
    "load_delegations",
    "read_chain",
    "revoke",
]
