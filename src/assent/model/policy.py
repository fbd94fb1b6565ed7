"""Who may do what: by a role that the contract names, or by a capability that the org gave to a role."""

from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Rejection


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
