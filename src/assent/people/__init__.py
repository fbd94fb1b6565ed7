"""The people of an org: members, roles, delegations, the directory and the inbox.

An application may bring its own `Directory`; `MembersDirectory` reads the table `members`.
"""

from assent.people.delegations import (
    DELEGATE,
    KeptDelegation,
    NewDelegation,
    delegate,
    list_delegations,
    load_delegations,
    revoke,
)
from assent.people.directory import Directory, Member, MembersDirectory, OrgRole, OrgUser
from assent.people.inbox import InboxCounts, InboxItem, InboxPage, InboxQuery, count_inbox, read_inbox

__all__ = [
    "DELEGATE",
    "Directory",
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
    "list_delegations",
    "load_delegations",
    "read_inbox",
    "revoke",
]
