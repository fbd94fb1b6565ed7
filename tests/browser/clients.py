"""Acme takes clients in, as a browser meets it: `kyc_onboarding`, its team, and a client with a link."""

import asyncio
import struct
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import httpx
import yaml

from assent.model.actor import Actor
from assent.runtime import InstanceView
from assent.runtime.runtime import OrgRuntime
from assent.templates import templates
from tests.browser.company import Company
from tests.world import ORG, OTHER_ORG, WorldMember, grant, hire, publish

RIGHTS: Final[Mapping[str, Collection[str]]] = {
    "relationship_manager": ["clients:onboard:execute"],
    "reviewer": ["documents:read", "documents:review", "workflows:read"],
    "lead": ["documents:*", "requirements:*", "workflows:read"],
}
TEAM: Final[Mapping[str, tuple[str, str]]] = {
    "ron": ("relationship_manager", "Ron Roth"),
    "vera": ("reviewer", "Vera Vogt"),
    "lead": ("lead", "Lena Lead"),
}


def picture(width: int, height: int) -> bytes:
    """Return a picture as PNG: stripes, as those of a passport's lines."""
    lines = b"".join(
        b"\0" + (b"\xe8\xee\xf6" if row // 12 % 3 else b"\x8a\x9f\xc0") * width for row in range(height)
    )
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


PNG: Final = picture(480, 300)
PDF: Final = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%%EOF"


@dataclass(frozen=True)
class ClientIntake:
    """What happens behind the screens of the compliance team."""

    company: Company

    def by(self, user: str) -> OrgRuntime:
        role = TEAM[user][0]
        return self.company.runtime.org(ORG, Actor(user, roles={role}, capabilities=set(RIGHTS[role])))

    async def begin(self, client: str = "client-17", **about: str) -> InstanceView:
        """Take a client in, up to the step that asks for documents."""
        said = {"entity_id": client, "full_name": "Cy Cole", "email": "cy@mail.example", "risk": "low"}
        view = await self.by("ron").instances.start("clients.kyc")
        return await self.by("ron").instances.advance(view.id, "completed", said | about)

    async def link(self, instance_id: UUID, **about: Any) -> str:
        """Return the path of a new link for the open request of an instance."""
        page = await self.by("lead").requests.list(instance_id=instance_id)
        (open_request,) = [one for one in page.items if one.ended_at is None]
        made = await self.by("lead").requests.upload_link(open_request.id, base_url="http://assent", **about)
        return made.url.removeprefix("http://assent")

    async def hand_in(
        self, instance_id: UUID, *doc_types: str, content: bytes = PNG, name: str = "scan.png"
    ) -> None:
        """Hand in by a link what an instance asks for, and wait until a reviewer is to look at it."""
        async with httpx.AsyncClient(base_url=self.company.address) as client:
            link = await self.link(instance_id)
            for doc_type in doc_types:
                reply = await client.post(
                    f"{link}/{doc_type}", params={"name": name}, content=content + doc_type.encode()
                )
                assert reply.status_code == 201, reply.text
        page = await self.by("lead").requirements.list(instance_id=instance_id)
        (subject,) = {one.subject for one in page.items}
        async with asyncio.timeout(20):
            while not {(await self.statuses(subject))[one] for one in doc_types} <= {"in_qa"}:  # noqa: ASYNC110 - the worker does it
                await asyncio.sleep(0.05)

    async def reject(self, doc_type: str, code: str, subject: str = "client-17") -> None:
        """Reject the latest version, and wait until the client is asked again."""
        (document,) = (await self.by("vera").documents.list(document_type=doc_type, subject=subject)).items
        version_id = (await self.by("vera").documents.get(document.id)).versions[0].id
        await self.by("vera").documents.reject(document.id, version_id, code)
        async with asyncio.timeout(20):
            while (await self.statuses(subject))[doc_type] != "requested":  # noqa: ASYNC110 - the worker does it
                await asyncio.sleep(0.05)

    async def status(self, instance_id: UUID) -> tuple[str, list[str]]:
        """Return the status of an instance, and where it stands."""
        async with self.company.database.transaction(None) as connection:
            row = await connection.fetchrow(
                "SELECT status, current_nodes FROM assent.workflow_instances WHERE id = $1", instance_id
            )
        return row["status"], list(row["current_nodes"])

    async def statuses(self, subject: str = "client-17") -> dict[str, str]:
        page = await self.by("lead").requirements.list(subject=subject)
        return {one.doc_type: one.status for one in page.items}


async def take_clients_in(company: Company) -> ClientIntake:
    """Publish the flow, and hire the team, in both orgs."""
    async with company.database.transaction(None) as connection:
        for org in (ORG, OTHER_ORG):
            await hire(connection, {user: WorldMember([role]) for user, (role, _) in TEAM.items()}, org)
            await grant(connection, RIGHTS, org)
        for user, (_, name) in TEAM.items():
            await connection.execute(
                "UPDATE assent.members SET name = $3 WHERE org_id = $1 AND user_id = $2", ORG, user, name
            )
        await connection.execute("UPDATE assent.orgs SET name = 'Acme Ltd' WHERE org_id = $1", ORG)
    await publish(company.database, yaml.safe_load(templates()["kyc_onboarding"].files["flow.yaml"]), ORG)
    return ClientIntake(company)
