"""Acme with invoices on a real server with a worker, as a browser meets it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import socket
from typing import Any, Final
from uuid import UUID

from fastapi import FastAPI

from assent.app import App
from assent.effects.settings import CHANNELS, EffectSettings, SendingSettings
from assent.http.app import create_app
from assent.http.context import DemoPerson
from assent.http.routes.sessions import terms_of
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.model.actor import Actor
from assent.model.mutation import Entity
from assent.people.api_keys import create_api_key
from assent.people.sessions import begin_session
from assent.running import worker_of
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from assent.worker.options import Options
from tests.authored import invoice_contract
from tests.postgres import SETTINGS
from tests.world import (
    LARGE,
    MIDDLE,
    ORG,
    OTHER_ORG,
    PEOPLE,
    WorldMember,
    actor,
    create_invoice,
    grant,
    hire,
    insert_org,
    publish_invoices,
    submit_invoice,
)

NAMES: Final[Mapping[str, str]] = {
    "fin": "Finley Fischer",
    "ann": "Ann Archer",
    "bea": "Bea Brandt",
    "olga": "Olga Oster",
}
STAFF: Final[Mapping[str, Collection[str]]] = {**PEOPLE, "olga": ["operator"]}
CAPABILITIES: Final[Mapping[str, Collection[str]]] = {
    "finance_manager": ["invoice:read"],
    "clerk": ["invoice:read"],
    "operator": ["workflows:*", "operations:read", "definitions:read", "invoice:read"],
}
WEB: Final = HttpSettings(rate_failed_sign_ins_per_minute=0, access_log="off")


@dataclass
class Company:
    """The server, what is behind it, and the keys of its people."""

    address: str
    database: Database
    runtime: Runtime
    served: Serving
    door: FastAPI
    running: asyncio.Task[bool]
    begin: Callable[[], tuple[FastAPI, Serving]]
    """Returns a new server at the same address, which does not run yet."""

    async def stop(self) -> None:
        """Stop the server and its worker."""
        self.served.stop()
        await self.running

    def start(self) -> None:
        """Run a new server at the address of the one before."""
        self.door, self.served = self.begin()
        self.running = asyncio.create_task(self.served.run(), name="company")

    async def key_of(self, user: str, org: str = ORG, **terms: Any) -> str:
        async with self.database.transaction(org) as connection:
            now = self.database.clock.now()
            scopes = terms.pop("scopes", ("*",))
            text, _ = await create_api_key(connection, org, user, "browser", now, scopes=scopes, **terms)
        return text

    async def session_of(self, user: str, org: str = ORG) -> str:
        """Return the token of a session that begins now, as the sign-in begins it."""
        async with self.database.transaction(org) as connection:
            now, terms = self.database.clock.now(), terms_of(WEB)
            return (await begin_session(connection, org, user, now, terms)).token

    def actor(self, user: str) -> Actor:
        return actor(user)

    async def draft(self, number: str) -> Entity:
        return await create_invoice(self.runtime, {**MIDDLE, "number": number}, actor("ann"))

    async def invoice(self, number: str, who: str = "ann", **data: Any) -> InstanceView:
        """Return the instance of an invoice that one person has to approve."""
        return await submit_invoice(self.runtime, {**MIDDLE, "number": number, **data}, actor(who))

    async def large_invoice(self, number: str, **data: Any) -> InstanceView:
        """Return the instance of an invoice that two people have to approve."""
        return await submit_invoice(self.runtime, {**LARGE, "number": number, **data}, actor("ann"))

    async def state_of(self, entity_id: UUID | None) -> str:
        async with self.database.transaction(None) as connection:
            return await connection.fetchval(
                "SELECT state FROM assent.entities WHERE org_id = $1 AND id = $2", ORG, entity_id
            )


async def settle(database: Database) -> None:
    """Insert two orgs with the same people, and publish invoices for acme."""
    async with database.transaction(None) as connection:
        for org_id in (ORG, OTHER_ORG):
            await insert_org(
                connection, org_id, {"trusted_vendors": ["v-1"], "budget_owners": {"R&D": "bea"}}
            )
            await hire(connection, {name: WorldMember(roles) for name, roles in STAFF.items()}, org_id)
            await grant(connection, CAPABILITIES, org_id)
            for user, name in NAMES.items():
                await connection.execute(
                    "UPDATE assent.members SET name = $3 WHERE org_id = $1 AND user_id = $2",
                    org_id,
                    user,
                    name,
                )
        # Or the worker would make them in the middle of the first commands, and lock both out for a while.
        await connection.execute("SELECT assent.ensure_partitions()")
    await publish_invoices(database)


@asynccontextmanager
async def serving_company(
    url: str, settings: HttpSettings = WEB, demo: Collection[str] = ()
) -> AsyncIterator[Company]:
    """Serve acme, with a worker in the same process, until the end of the block."""
    database = await Database.open(url, settings=SETTINGS)
    app = App([invoice_contract()])
    people = [DemoPerson(ORG, user, NAMES.get(user, user)) for user in demo]
    try:
        await settle(database)
        sending = SendingSettings.defaults(EffectSettings.defaults(log=frozenset(CHANNELS)))

        def serve(listening: socket) -> tuple[FastAPI, Serving]:
            worker = worker_of(app, database, sending, Options())
            door = create_app(app, database, settings, demo_people=people)
            return door, Serving(door, listening, settings, worker)

        listening = listen("127.0.0.1", 0)
        port: int = listening.getsockname()[1]
        door, served = serve(listening)
        running = asyncio.create_task(served.run(), name="company")
        company = Company(
            *(f"http://127.0.0.1:{port}", database, app.runtime(database), served, door, running),
            lambda: serve(listen("127.0.0.1", port)),
        )
        try:
            yield company
        finally:
            await company.stop()
    finally:
        await database.close()
