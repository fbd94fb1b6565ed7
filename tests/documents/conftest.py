"""A compliance team on a database and a clock of the test's own: acme takes clients in."""

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from fastapi import FastAPI

from assent.app import App
from assent.documents.blobs import Blobs, BlobSettings
from assent.documents.documents import VersionItem
from assent.model.actor import Actor
from assent.model.document import DocumentRequirement
from assent.runtime import InstanceView
from assent.runtime.runtime import OrgRuntime, Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.templates import templates
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from assent.worker.timers import Timeouts, Timers, Validity
from tests.http.callers import CALLBACKS, SETTINGS, People
from tests.http.doors import create_app
from tests.workers import run_until_done
from tests.world import ORG, WorldMember, drain, grant, hire, insert_org, publish, rows

RON = Actor("ron", roles={"relationship_manager"}, capabilities={"clients:onboard:execute"})
PORTAL = Actor("portal", "service_account", capabilities={"documents:write", "results:push"})
VERA = Actor("vera", capabilities={"documents:read", "documents:review"})
LEAD = Actor(
    "lead",
    capabilities={"documents:*", "requirements:*", "workflows:retry", "workflows:cancel", "workflows:read"},
)
CLIENT = {"entity_id": "c-1", "full_name": "Cy", "email": "cy@mail.example", "risk": "low"}


@dataclass
class Compliance:
    """What the client, the reviewers and the workers do, each in a line of a test."""

    runtime: Runtime
    database: Database
    clock: MovedClock
    _keys: Any = field(default_factory=lambda: count(1))

    def by(self, actor: Actor) -> OrgRuntime:
        return self.runtime.org(ORG, actor)

    async def begin(self, **client: str) -> InstanceView:
        """Take a client in, up to the step that asks for documents."""
        view = await self.by(RON).instances.start("clients.kyc")
        return await self.by(RON).instances.advance(view.id, "completed", CLIENT | client)

    async def hand_in(self, *doc_types: str, subject: str = "c-1", **rest: Any) -> list[VersionItem]:
        """Create documents with a version each, and push them as one result of the open request."""
        versions = [await self.upload(one, subject) for one in doc_types]
        await self.push(*versions, **rest)
        return versions

    async def upload(self, doc_type: str, subject: str = "c-1", **version: Any) -> VersionItem:
        documents = self.by(PORTAL).documents
        document = await documents.create(doc_type, subject)
        return await documents.add_version(document.id, structured_data={"type": doc_type}, **version)

    async def push(
        self, *versions: VersionItem, request_id: UUID | None = None, key: str | None = None
    ) -> str:
        items = [{"cargo": f"version://assent/{one.id}"} for one in versions]
        request = request_id or (await self.open_request())["id"]
        name = key or f"evt_{next(self._keys)}"
        return await self.by(PORTAL).requests.push_result(request, name, items)

    async def work(self) -> None:
        """Fold what came, fire what is due, and let the instances know, a second later."""
        self.clock.advance(timedelta(seconds=1))
        context = WorkerContext(self.database, runtime=self.runtime)
        await run_until_done(Results(context))
        await run_until_done(Timers(context))
        await run_until_done(Timeouts(context))
        await run_until_done(Validity(context))
        await drain(self.runtime)

    async def wait(self, **time: float) -> None:
        self.clock.advance(timedelta(**time))
        await self.work()

    async def requests(self) -> list[dict[str, Any]]:
        return sorted(
            await rows(self.database, "outside_requests"), key=lambda row: (row["created_at"], row["id"])
        )

    async def open_request(self) -> dict[str, Any]:
        (found,) = [row for row in await self.requests() if row["ended_at"] is None]
        return found

    async def asked(self) -> list[dict[str, Any]]:
        """What the requests asked for, the first first."""
        history = await rows(self.database, "outside_request_history")
        bodies = {row["request_id"]: row["body"] for row in history if row["what"] == "asked"}
        return [bodies[row["id"]] for row in await self.requests()]

    async def requirements(self) -> dict[str, DocumentRequirement]:
        page = await self.by(LEAD).requirements.list()
        return {one.doc_type: one for one in page.items}

    async def statuses(self) -> dict[str, str]:
        return {name: one.status for name, one in (await self.requirements()).items()}

    async def verify(self, *versions: VersionItem, **rest: Any) -> None:
        for one in versions:
            await self.by(VERA).documents.verify(one.document_id, one.id, **rest)
        await self.work()

    async def reject(self, version: VersionItem, code: str) -> None:
        await self.by(VERA).documents.reject(version.document_id, version.id, code, "seen by vera")
        await self.work()

    async def instance(self) -> dict[str, Any]:
        (found,) = await rows(self.database, "workflow_instances")
        return found

    async def place(self) -> tuple[str, list[str]]:
        """The status of the instance, and where it stands."""
        found = await self.instance()
        return found["status"], found["current_nodes"]


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    """A store of files in a folder."""
    return Blobs(BlobSettings.defaults(blobs=tmp_path.joinpath("files").as_uri(), blob_bytes_max=1_000_000))


@pytest.fixture
async def compliance(database: Database, clock: MovedClock, blobs: Blobs) -> Compliance:
    runtime = App().runtime(database, blobs)
    async with database.transaction(None) as connection:
        await insert_org(connection, settings={})
        people = {"ron": ["relationship_manager"], "vera": ["reviewer"], "lead": ["lead"]}
        members = {name: WorldMember(roles, email=f"{name}@acme.example") for name, roles in people.items()}
        await hire(connection, members)
        await grant(connection, {"relationship_manager": ["clients:onboard:execute"]})
    flow = yaml.safe_load(templates()["kyc_onboarding"].files["flow.yaml"])
    await publish(database, flow, ORG)
    return Compliance(runtime, database, clock)


@pytest.fixture
async def door(compliance: Compliance, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The API on the same store of files, with the people of the compliance team as members."""
    monkeypatch.setenv("ASSENT_BLOBS", blobs.settings.place)
    monkeypatch.setenv("ASSENT_BLOB_BYTES_MAX", str(blobs.settings.blob_bytes_max))
    rights = {
        "portals": ["documents:write", "results:push"],
        "reviewers": ["documents:read", "documents:review"],
        "leads": ["documents:*", "requirements:*", "workflows:read"],
    }
    async with compliance.database.transaction(None) as connection:
        await hire(connection, {"portal": WorldMember(["portals"], "service_account")})
        await grant(connection, rights)
        await connection.execute("UPDATE assent.members SET roles = '{reviewers}' WHERE user_id = 'vera'")
        await connection.execute("UPDATE assent.members SET roles = '{leads}' WHERE user_id = 'lead'")
    return create_app(App(), compliance.database, SETTINGS, CALLBACKS)


@pytest.fixture
def people(door: FastAPI, compliance: Compliance) -> People:
    return People(door, compliance.clock.now())
