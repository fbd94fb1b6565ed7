"""Who may do what, and who may grant it. Pure.

An actor acts by a role that the contract names, or by a capability that the org gave to a role. A member gives, or
takes away, only what the member holds: roles, members, API keys and delegations all ask here. A capability is held by
itself or through a wildcard above it: `invoice:*` holds `invoice:update`, and `*` holds everything. A wildcard is held
only through itself or a wider one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection


def check_policy(contract: Contract, verb: str, actor: Actor) -> Rejection | None:
    """Return why the actor may not do this, or None: a verb that the contract does not list needs a capability."""
    roles = contract.permissions.get(verb, ())
    if verb == "amend" and not roles:
        # An amendment is an edit by other means; without a rule of its own, editors may do it.
        roles = contract.permissions.get("update", ())
    capability = f"{contract.name}:{verb}"
    if actor.has_role(roles) or actor.can(capability):
        return None
    wanted = f"one of the roles {', '.join(roles)}" if roles else f"the capability {capability}"
    return Rejection(
        "POLICY_DENIED", f"{actor.id} may not {verb} {contract.name}: it takes {wanted}", ("actor",)
    )


EVERYTHING: Final = "*"
"""The capability that holds all others. The last active member who holds it keeps it."""


def not_held(giver: Actor, capabilities: Iterable[str]) -> list[str]:
    """Return the capabilities among these that the giver does not hold, each once, in order."""
    return sorted({capability for capability in capabilities if not giver.can(capability)})


def refuse_not_held(giver: Actor, capabilities: Iterable[str], path: str) -> None:
    """Raise `Refused` if the giver would give, or take away, a capability that they do not hold."""
    if missing := not_held(giver, capabilities):
        message = f"{giver.id} cannot give or take what they do not hold: {', '.join(missing)}"
        raise Refused(Rejection("POLICY_DENIED", message, (path,)))


def refuse_rights_not_held(
    giver: Actor, roles: Iterable[str], contracts: Mapping[str, Contract], path: str
) -> None:
    """Raise `Refused` if contracts let these roles do what the giver may not do.

    Asked of accounts that act by a key, which the giver may hold: a person who is given a role is another person.
    """
    account = Actor("account", "service_account", frozenset(roles))
    missing = [
        f"{contract.name}:{verb}"
        for contract in contracts.values()
        for verb in contract.permissions
        if check_policy(contract, verb, account) is None and check_policy(contract, verb, giver) is not None
    ]
    if missing:
        message = f"{giver.id} cannot give or take what they may not do: {', '.join(sorted(missing))}"
        raise Refused(Rejection("POLICY_DENIED", message, (path,)))


def refuse_for_oneself(giver: Actor, user_id: str, what: str, path: str) -> None:
    """Raise `Refused` if the giver is this member, or acts by a key that this member made."""
    if giver.is_or_acts_for(user_id):
        message = f"no member {what}; another member with the right must do it"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, (path,)))
