"""A step never acts with a right that neither its person nor its `run_as` holds, whatever was waited for before.

Generated: every shape of work, every wait, a step that acts as its person or as a service account, and for each of them
a right that is held, was never held, or is lost during the wait.
"""

from uuid import UUID

import pytest

from assent.model.mutation import Refused
from tests.authority.matrix import MATRIX_BETWEENS, Between, MatrixCompany, company_with
from tests.authority.rights import (
    BEHIND_THE_GATE,
    RUN_AS_BOT,
    SHAPES,
    STAFF,
    CaseResult,
    RightsCase,
    WriteShape,
    written_rows,
)

CARRIED_OUT_BY = {
    "nothing": "hans",
    "another's form": "kim",
    "retry by an operator": "olga",
    "skip by an operator": "olga",
}
"""Who carries out a step behind this wait; behind all others it is the system."""
BEHIND_A_CALLER = ("nothing", "another's form")
"""Where the step happens within the command of a person: the person is refused, and the work stays as it was."""


@pytest.mark.parametrize("as_account", [False, True], ids=["its person", "an account"])
@pytest.mark.parametrize("between", MATRIX_BETWEENS, ids=lambda between: between.name)
@pytest.mark.parametrize("shape", SHAPES)
async def test_step_acts_only_with_a_right_that_is_held_now(
    shape: str, between: Between, as_account: bool, postgres_url: str
) -> None:
    kind = SHAPES[shape]
    wrong: list[str] = []
    async with company_with(
        postgres_url, *kind.sources(between, RUN_AS_BOT if as_account else {})
    ) as company:
        for name, case in kind.cases(between, as_account=as_account).items():
            before, after, refusal = await _run(company, kind, between, case)
            if between.name in BEHIND_A_CALLER:
                complaints = _complaints_of_caller(before, after, case, refusal)
            else:
                complaints = _complaints(before, after, case, writes=case.acts or name in BEHIND_THE_GATE)
                complaints += [f"a caller was refused: {refusal}"] if refusal else []
            entity = company.entity_id
            assert entity is not None
            if case.acts:
                complaints += await _misnamed(company, between, case.person, entity, as_account=as_account)
            wrong += [f"{name}: {complaint}" for complaint in complaints]
    assert not wrong, "\n".join(wrong)


async def _run(
    company: MatrixCompany, shape: WriteShape, between: Between, case: RightsCase
) -> tuple[CaseResult | None, CaseResult, str | None]:
    """Let a case happen; return how things stood at the wait, if there was one, in the end, and a refusal's code."""
    company.calls.clear()
    company.instance_id = None
    await company.sandbox.people(**{**STAFF, **case.people})
    before, refusal = None, None
    try:
        entity = await shape.begin(company, between, case.person)
        before = await CaseResult.look(company, entity) if between.nodes else None
        await company.sandbox.people(**case.meanwhile)
        await between.pass_(company)
    except Refused as refused:
        refusal = refused.code
    assert company.entity_id is not None
    return before, await CaseResult.look(company, company.entity_id), refusal


def _complaints_of_caller(
    before: CaseResult | None, after: CaseResult, case: RightsCase, refusal: str | None
) -> list[str]:
    """Return what is wrong where a caller waits: without the right, the caller is refused and nothing has changed."""
    found = []
    if refusal != (None if case.acts else "POLICY_DENIED"):
        found.append(f"expected a refusal {not case.acts}, found {refusal}")
    if not case.acts and before is not None and after != before:
        found.append(f"changed from {before} to {after}")
    if after.status == "paused" or after.writes != case.acts or (after.has_read and not case.acts):
        found.append(f"expected {int(case.acts)} writes and no incident, found {after}")
    return found


def _complaints(before: CaseResult | None, after: CaseResult, case: RightsCase, *, writes: bool) -> list[str]:
    found = []
    written = after.writes - (before.writes if before else 0)
    if written != writes:
        found.append(f"expected {int(writes)} writes, found {written}")
    expected = (False, None) if case.acts else (True, "POLICY_DENIED")
    if (after.status == "paused", after.incident) != expected:
        found.append(f"expected (paused, incident) {expected}, found {after}")
    if not case.acts and before is not None and after.state != before.state:
        found.append(f"went from {before.state} to {after.state}")
    if not writes and after.has_read and not (before and before.has_read):
        found.append("has read what it may not write")
    return found


async def _misnamed(
    company: MatrixCompany, between: Between, person: str, entity: UUID, *, as_account: bool
) -> list[str]:
    """Return what is wrong about the names in the audit entry of the last write."""
    row = (await written_rows(company, entity))[-1]
    by = ("bot", "service_account") if as_account else (CARRIED_OUT_BY.get(between.name, "system"),)
    found = (row["actor_id"], row["actor_kind"])[: len(by)]
    behalf = [row["actor_id"], *(row["on_behalf_of"] or [])]
    wrong = [] if found == by else [f"expected it to be carried out by {by}, found {found}"]
    if person not in behalf:
        wrong.append(f"expected it on behalf of {person}, found {behalf}")
    is_content = "seal" not in row["changes"]  # what only the workflow writes is the work of no person
    if is_content and person not in row["contributors"]:
        wrong.append(f"expected {person} among its contributors, found {row['contributors']}")
    return wrong
