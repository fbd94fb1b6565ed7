"""Rules: what an org denies, sets or emits around actions, and the history of evaluations. `/api/rules`"""

from typing import Annotated, Final

from fastapi import Body as JsonBody

from assent.bodies.administration import RuleBody, RuleEvaluationBody, SavedRuleBody
from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.http.context import Transaction
from assent.http.fields import NamePath, NameQuery
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.canonical import require_canonical
from assent.model.cursor import id_in, position_of, texts_in

router = Router(takes_documents=True, prefix="/api/rules", tags=["rules"])

_RULE: Final = {
    "action": "submit",
    "timing": "before",
    "condition": "entity.grand_total > org.limit",
    "outcome": "deny",
    "then": {"message": "over the limit of {org.limit}"},
}


@router.query("", scope="rules:read", summary="List rules, by entity type and name")
async def list_rules_of_org(
    tx: Transaction,
    entity_type: NameQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[RuleBody]]:
    """For holders of `rules:manage`. Also those that are not enabled."""
    after = position_of(cursor, texts_in)
    rules = await tx.runtime.rules.list(entity_type, after=after, limit=limit + 1)
    return page_of(rules, limit, RuleBody.of, lambda rule: rule.position)


@router.query("/{entity_type}/{name}", scope="rules:read", errors=(404,), summary="Read a rule")
async def show_rule(tx: Transaction, entity_type: NamePath, name: NamePath) -> RuleBody:
    """For holders of `rules:manage`."""
    return RuleBody.of(await tx.runtime.rules.get(entity_type, name))


@router.command(
    "/{entity_type}/{name}", method="PUT", scope="rules:write", rate="entities", summary="Save a rule"
)
async def save_rule_of_org(
    tx: Transaction,
    entity_type: NamePath,
    name: NamePath,
    data: Annotated[Data, JsonBody(examples=[_RULE])],
) -> SavedRuleBody:
    """For holders of `rules:manage`, in place of the rule of this name. It is checked against the contract.

    A rule that sets fields takes the right to update the entity, a rule that emits takes `events:emit`. `warnings` name
    the settings that its condition reads and that the org does not have.
    """
    with reporting_problems():
        require_canonical(data)
        saved = await tx.runtime.rules.save({**data, "entity_type": entity_type, "name": name})
    return SavedRuleBody.of(saved)


@router.command(
    "/{entity_type}/{name}",
    method="DELETE",
    scope="rules:write",
    rate="entities",
    errors=(404,),
    summary="Delete a rule",
)
async def delete_rule_of_org(tx: Transaction, entity_type: NamePath, name: NamePath) -> RuleBody:
    """For holders of `rules:manage`. The history of its evaluations stays."""
    return RuleBody.of(await tx.runtime.rules.delete(entity_type, name))


@router.query(
    "/{entity_type}/{name}/evaluations",
    scope="rules:read",
    summary="List the evaluations of a rule, newest first",
)
async def list_evaluations_of_rule(
    tx: Transaction,
    entity_type: NamePath,
    name: NamePath,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[RuleEvaluationBody]]:
    """For holders of `rules:manage` who may read the entities; also of a rule that was deleted."""
    after = position_of(cursor, id_in)
    found = await tx.runtime.rules.list_evaluations(entity_type, name, after=after, limit=limit + 1)
    return page_of(found, limit, RuleEvaluationBody.of, lambda evaluation: str(evaluation.id))
