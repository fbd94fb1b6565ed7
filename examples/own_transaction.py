"""Approve expenses from your own application: its rows and the workflow commit together, or neither does.

python examples/own_transaction.py
"""

import asyncio
from uuid import UUID

import asyncpg

import assent
from assent.running import publish

ORG = "acme"
ANN = assent.Actor("ann", roles=frozenset({"clerk"}))
MAX = assent.Actor("max", roles=frozenset({"manager"}))

EXPENSE = {
    "contract": "expense",
    "version": 1,
    "fields": {
        "title": {"type": "text", "required": True},
        "total": {"type": "money", "required": True, "min": 1},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "approved": {"edit": "locked"},
        },
        "transitions": {
            "submit": {"from": "draft", "to": "submitted"},
            "approve": {"from": "submitted", "to": "approved", "approval": "required", "on_reject": "draft"},
        },
    },
    "on_drift": "fail",
    "permissions": {"create": ["clerk"], "submit": ["clerk"], "approve": ["manager"]},
}

TABLE = """
CREATE TABLE IF NOT EXISTS public.reimbursements (
  expense_id uuid PRIMARY KEY,
  request_id uuid NOT NULL,
  iban text NOT NULL,
  paid_at timestamptz
)
"""
MEMBER = """
INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('acme', 'max', 'Max', '{manager}')
ON CONFLICT DO NOTHING
"""
STATE = """
SELECT state, paid_at IS NOT NULL AS paid
  FROM public.reimbursements JOIN assent.entities ON id = expense_id
 WHERE expense_id = $1
"""

app = assent.App().add(EXPENSE)


async def hand_in(
    connection: asyncpg.Connection, runtime: assent.Runtime, title: str, total: int, iban: str
) -> UUID:
    """Submit an expense and insert our own row about it, in one transaction; return the expense's id."""
    async with connection.transaction():
        async with runtime.within(connection, ORG, ANN) as acme:
            expense = (await acme.entities.mutate("expense.create", {"title": title, "total": total})).entity
            view = await acme.entities.transition(expense.id, "submit")
        insert = "INSERT INTO public.reimbursements (expense_id, request_id, iban) VALUES ($1, $2, $3)"
        await connection.execute(insert, expense.id, view.waiting[0].request_id, iban)
    return expense.id


async def approve(
    connection: asyncpg.Connection, runtime: assent.Runtime, expense_id: UUID, approver: assent.Actor
) -> None:
    """Mark our row as paid and approve the expense. If the approval is refused, the row stays unpaid."""
    async with connection.transaction():
        pay = "UPDATE public.reimbursements SET paid_at = now() WHERE expense_id = $1 RETURNING request_id"
        request_id = await connection.fetchval(pay, expense_id)
        async with runtime.within(connection, ORG, approver) as acme:
            await acme.approvals.decide(request_id, "approved")


async def set_up(database: assent.Database, connection: asyncpg.Connection) -> None:
    await assent.migrate(database)
    await publish(database, ORG, app.sources)
    await connection.execute(TABLE)
    await connection.execute(MEMBER)


async def main() -> None:
    database = await assent.Database.open()
    connection = await asyncpg.connect(database.url)
    try:
        await set_up(database, connection)
        runtime = app.runtime(database)
        expense_id = await hand_in(connection, runtime, "Taxi", 1_950, "DE02120300000000202051")
        try:
            await approve(connection, runtime, expense_id, ANN)
        except assent.Refused as refused:
            print(f"ann: {refused.rejection.code}")
        await approve(connection, runtime, expense_id, MAX)
        (row,) = await connection.fetch(STATE, expense_id)
        print(f"max: {row['state']}, paid: {row['paid']}")
    finally:
        await connection.close()
        await database.close()


if __name__ == "__main__":
    asyncio.run(main())
