"""When a join fires: ALL when everybody is there, ANY with the first that counts (D22, D23, WF-16)."""

from typing import TYPE_CHECKING

from assent.engine.instance import Token
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.run import Run


def join_is_complete(run: "Run", token: Token) -> bool:
    """Whether enough of those that came of this token's split have arrived."""
    if token.state != "split":
        return False
    states = [child.state for child in run.instance.children_of(token.id)]
    if _mode(run, token) == "any" and "arrived" in states:
        return True
    return all(state in ("arrived", "absorbed") for state in states)


def fire_join(run: "Run", token: Token) -> None:
    """Make the token that was split ready at its join. Asked for only when it is visited next: no step says it."""
    arrived = [child for child in run.instance.children_of(token.id) if child.state == "arrived"]
    if _mode(run, token) == "any" and arrived:
        others = [other for other in run.instance.descendants_of(token.id) if other is not arrived[0]]
        losers = [other for other in others if other.state not in ("absorbed", "split")]
        run.cancel_tokens(losers, "another was first")
    token.node, token.state = run.plan.join_of_split[token.node], "ready"
    token.carry = Outcome.COMPLETED if arrived else Outcome.NONE
    # The person who moves now comes last: theirs are the rights with which the token goes on.
    arrived.sort(key=lambda child: child.authority.principal.id == run.actor.id)
    for child in arrived:
        token.authority = token.authority.joined_by(child.authority.principals)


def _mode(run: "Run", token: Token) -> str:
    return run.plan.join(run.plan.join_of_split[token.node]).mode
