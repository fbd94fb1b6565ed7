"""The one rule of giving: nobody gives or takes what they do not hold."""

import pytest

from assent.model.actor import Actor
from assent.model.contract import contract_from
from assent.model.mutation import Refused
from assent.model.policy import (
    check_policy,
    not_held,
    refuse_for_oneself,
    refuse_not_held,
    refuse_rights_not_held,
)

NOTE = contract_from(
    {
        "contract": "note",
        "version": 1,
        "workflow": "none",
        "fields": {"title": {"type": "text"}},
        "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}, "transitions": {}},
        "permissions": {"create": ["clerk"], "read": ["clerk", "reader"]},
    }
)


def actor(*capabilities, roles=()):
    return Actor("ann", roles=frozenset(roles), capabilities=frozenset(capabilities))


def test_what_a_contract_does_not_list_takes_a_capability():
    refused = check_policy(NOTE, "update", actor(roles=["clerk", "reader"]))
    assert refused is not None
    assert refused.code == "POLICY_DENIED"
    assert check_policy(NOTE, "update", actor("note:update")) is None


@pytest.mark.parametrize(
    ("held", "given", "missing"),
    [
        (["*"], ["*", "a:*", "a:b:c"], []),
        (["a:*"], ["a:*", "a:b", "a:b:c", "a:b:*"], []),
        (["a:*"], ["*", "b:*", "a", "ab:c"], ["*", "a", "ab:c", "b:*"]),
        (["a:b"], ["a:b", "a:*", "a:b:c"], ["a:*", "a:b:c"]),
        (["a:b:*"], ["a:b:*", "a:*", "a:b"], ["a:*", "a:b"]),
        ([], ["a:b", "a:b"], ["a:b"]),
        ([], [], []),
    ],
)
def test_capabilities_are_held_by_themselves_or_a_wildcard_above(held, given, missing):
    assert not_held(actor(*held), given) == missing


def test_every_missing_capability_is_named():
    with pytest.raises(Refused, match=r"POLICY_DENIED.*a:b, c:d") as refused:
        refuse_not_held(actor("e:f"), ["c:d", "a:b", "e:f"], "roles")
    assert refused.value.rejection.path == ("roles",)


@pytest.mark.parametrize(
    ("giver", "is_refused"),
    [
        (actor(), True),
        (actor(roles=["reader"]), True),
        (actor("note:read"), True),
        (actor(roles=["clerk"]), False),
        (actor("note:create", roles=["reader"]), False),
        (actor("note:*"), False),
        (actor("*"), False),
    ],
)
def test_what_contracts_let_a_role_do_counts_for_accounts(giver, is_refused):
    contracts = {"note": NOTE}
    refuse_rights_not_held(giver, ["unheard-of"], contracts, "roles")
    if not is_refused:
        refuse_rights_not_held(giver, ["clerk"], contracts, "roles")
        return
    with pytest.raises(Refused, match="note:create"):
        refuse_rights_not_held(giver, ["clerk"], contracts, "roles")


def test_oneself_is_also_who_made_the_key():
    bot = Actor("bot", "service_account", maker_id="ann")
    refuse_for_oneself(bot, "bea", "does this", "to_user")
    for name in ("bot", "ann"):
        with pytest.raises(Refused, match="SEPARATION_OF_DUTIES"):
            refuse_for_oneself(bot, name, "does this", "to_user")
