"""When a join fires: ALL when everybody is there, ANY with the first that counts (D22, D23, WF-16)."""

from typing import TYPE_CHECKING

from assent.engine.instance import Token
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.run import Run


def joins_to_fire(run: "Run") -> None:
    """Make the token that was split ready at its join, wherever enough others have arrived."""
    split = [token for token in run.instance.tokens.values() if token.state == "split"]
    # The innermost first: an inner join's token is itself an arrival at the outer one.
    for token in sorted(split, key=lambda token: -len(token.id)):
        _fire_if_complete(run, token)


def _fire_if_complete(run: "Run", token: Token) -> None:
    children = run.instance.children_of(token.id)
    join_id = _join_of(run, token)
    arrived = [child for child in children if child.state == "arrived"]
    settled = all(child.state in ("arrived", "absorbed") for child in children)
    if run.plan.join(join_id).mode == "any" and arrived:
        winner = arrived[0]
        others = [other for other in run.instance.descendants_of(token.id) if other is not winner]
        losers = [other for other in others if other.state not in ("absorbed", "split")]
        run.cancel_tokens(losers, "another was first")
    elif not settled:
        return
    token.node, token.state = join_id, "ready"
    token.carry = Outcome.COMPLETED if arrived else Outcome.NONE


def _join_of(run: "Run", token: Token) -> str:
    return run.plan.join_of_split[token.node]
