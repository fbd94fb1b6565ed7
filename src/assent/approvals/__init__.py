"""Approvals and forms: the people to ask, the requests, their seats and decisions.

`find_people` fills the groups of an approval from a `Directory` of `assent.people`. Requests
between the engine's values and their rows are in `assent.approvals.requests`.
"""

from assent.approvals.chains import Chain, ChainStep, keep_chain, list_chains, read_chain
from assent.approvals.requests import DecisionRecord, decisions_of_entity, decisions_of_request
from assent.approvals.resolve import APPROVERS_MAX, PeopleQuery, find_people

__all__ = [
    "APPROVERS_MAX",
    "Chain",
    "ChainStep",
    "DecisionRecord",
    "PeopleQuery",
    "decisions_of_entity",
    "decisions_of_request",
    "find_people",
    "keep_chain",
    "list_chains",
    "read_chain",
]
