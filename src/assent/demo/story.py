"""The story: what Ann and Max do to one purchase, and what the database says to it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import asyncpg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assent.demo.purchase import ANN, MAX, ORG, RULE, app
from assent.kernel import Kernel
from assent.kernel.read import read_audit
from assent.kernel.rule_changes import save_rule
from assent.model.actor import Actor
from assent.model.mutation import Command, Entity, Refused, Rejection
from assent.store.database import Database


class Story:
    """Runs one command after the other and tells what happened."""

    def __init__(self, database: Database, console: Console) -> None:
        self.kernel: Kernel = app.kernel(database)
        self.database = database
        self.console = console

    async def tell(self) -> Entity:
        await self._open_the_office()
        purchase = await self._write_a_purchase()
        await self._go_over_the_budget(purchase)
        submitted = await self._submit(purchase)
        await self._try_what_is_locked(submitted)
        await self._amend(submitted)
        await self._show_the_trail(submitted.id)
        return submitted

    async def _open_the_office(self) -> None:
        async with self.database.transaction(None) as connection:
            await connection.execute(_OPEN_ORG, ORG, "Northwind", {"budget": 150_000})
        async with self.database.transaction(ORG) as connection:
            await save_rule(connection, self.kernel.registry, ORG, RULE, self.database.clock.now())

    async def _write_a_purchase(self) -> Entity:
        self._chapter("Ann writes a purchase", "Every change is a new version; the old ones stay.")
        purchase = await self._do(
            "creates it", ANN, "create", None, {"number": "P-1", "vendor": "Ikea", "total": 129_900}
        )
        await self._do("corrects the total", ANN, "update", purchase, {"total": 184_900}, "price list of May")
        await self._do("saves it again, unchanged", ANN, "update", purchase, {"total": 184_900})
        return await self._do("assigns a cost center", ANN, "assign", purchase, {"cost_center": "r&d"})

    async def _go_over_the_budget(self, purchase: Entity) -> None:
        self._chapter("The org has a rule", f"[dim]{RULE['condition']}[/] → deny")
        await self._fail("tries to submit it", ANN, "submit", purchase, {})
        await self._do("takes the desk out", ANN, "update", purchase, {"total": 149_000}, "no desk")

    async def _submit(self, purchase: Entity) -> Entity:
        self._chapter("Ann submits it", "The contract says: draft is editable, submitted is locked.")
        await self._fail("tries to submit it", MAX, "submit", purchase, {})
        return await self._do("submits it", ANN, "submit", purchase, {})

    async def _try_what_is_locked(self, purchase: Entity) -> None:
        self._chapter("Locked means locked", "No worker of ours is running. It is the database that refuses.")
        await self._fail("edits it through the kernel", ANN, "update", purchase, {"total": 1})
        await self._fail_in_sql("as the application, by plain SQL", ORG, _PLAIN_UPDATE, purchase.id)
        await self._fail_in_sql("as the owner of the tables", None, _PLAIN_UPDATE, purchase.id)

    async def _amend(self, purchase: Entity) -> None:
        self._chapter("What is locked is amended", "An amendment is a new entity that refers to the old one.")
        amended = await self._do("amends it", MAX, "amend", purchase, {"total": 160_000}, "rush delivery")
        self._line(
            "", Text(f"the new draft {_short(amended.id)} was amended from {_short(purchase.id)}", "dim")
        )

    async def _show_the_trail(self, entity_id: UUID) -> None:
        self._chapter("Who did what, exactly?", "One row per change, append-only, written with the change.")
        async with self.database.transaction(ORG) as connection:
            trail = await read_audit(connection, ORG, entity_id)
        table = Table("when", "who", "what", "version", "state", "changes", "why", box=None, pad_edge=False)
        for row in trail:
            table.add_row(*_trail_row(row))
        self.console.print(table)

    async def _do(  # noqa: PLR0913, PLR0917
        self,
        what: str,
        actor: Actor,
        verb: str,
        entity: Entity | None,
        payload: Mapping[str, Any],
        reason: str | None = None,
    ) -> Entity:
        command = _command(actor, verb, entity, payload, reason)
        outcome = await self.kernel.mutate(command)
        made = outcome.entity
        seen = (
            f"version {made.version}, {made.state}" if outcome.changed else "nothing changed, nothing written"
        )
        self._line(f"{actor.id.title()} {what}", Text("✓ ", "green") + Text(seen))
        return made

    async def _fail(
        self, what: str, actor: Actor, verb: str, entity: Entity, payload: Mapping[str, Any]
    ) -> None:
        try:
            await self.kernel.mutate(_command(actor, verb, entity, payload, None))
        except Refused as refusal:
            self._line(f"{actor.id.title()} {what}", _refusal(refusal.rejection))
        else:
            raise AssertionError(f"expected {verb} to be refused; the promise of this demo does not hold")

    async def _fail_in_sql(self, what: str, org_id: str | None, sql: str, entity_id: UUID) -> None:
        try:
            async with self.database.transaction(org_id) as connection:
                await connection.execute(sql, entity_id)
        except asyncpg.PostgresError as error:
            self._line(what, Text("✗ ", "red") + Text(str(error)))
        else:
            raise AssertionError("expected the database to refuse; the promise of this demo does not hold")

    def _chapter(self, title: str, subtitle: str) -> None:
        self.console.print(f"\n[bold]{title}[/]  [dim]{subtitle}[/]")

    def _line(self, what: str, seen: Text) -> None:
        row = Table.grid(padding=(0, 2))
        row.add_column(width=32)
        row.add_column()
        row.add_row(f"  {what}", seen)
        self.console.print(row)


_OPEN_ORG = (
    "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $2, $3) "
    "ON CONFLICT (org_id) DO UPDATE SET settings = excluded.settings"
)
_PLAIN_UPDATE = "UPDATE assent.entities SET state = 'draft' WHERE id = $1"


def _command(
    actor: Actor, verb: str, entity: Entity | None, payload: Mapping[str, Any], reason: str | None
) -> Command:
    entity_id = entity.id if entity else None
    return Command(ORG, f"purchase.{verb}", actor, payload, entity_id, reason=reason, channel="demo")


def _refusal(rejection: Rejection) -> Text:
    text = Text("✗ ", "red") + Text(rejection.code, "bold red") + Text(f" {rejection.message}")
    return text + Text(f"\n  {rejection.hint}", "dim") if rejection.hint else text


def _trail_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = row["from_version"], row["to_version"]
    changes = ", ".join(
        f"{name}: {_value(old)} → {_value(new)}" for name, (old, new) in row["changes"].items()
    )
    return (
        f"{row['at']:%H:%M:%S}",
        row["actor_id"],
        row["action"].partition(".")[2],
        f"{before or '–'} → {after}",
        row["to_state"],
        changes,
        row["reason"] or "",
    )


def _value(value: object) -> str:
    return "–" if value is None else str(value)


def _short(entity_id: UUID) -> str:
    return f"…{str(entity_id)[-8:]}"
