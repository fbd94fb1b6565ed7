"""The guide tells one onboarding from its beginning to its end: it is played over HTTP, word for word."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import orjson
from httpx import AsyncClient

import assent
from assent.app import App
from tests.documents.conftest import CLIENT, RON, Compliance
from tests.http.callers import CALLBACKS, SETTINGS, People
from tests.http.doors import create_app
from tests.processes.commands import ROOT
from tests.world import ORG, WorldMember, grant, hire, rows

GUIDE = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
MOMENTS = re.compile(r"<!-- (worker|7 days) -->|```http\n(.*?)```", re.DOTALL)
EXCHANGE = re.compile(r"^(\w+)> ([A-Z]+) (\S+)\n(?:(\{.*\})\n)?(\d{3}) (\{.*\})$", re.MULTILINE)


class Story:
    """What the guide has named so far: `<passport>` is what stood there when it was first seen."""

    def __init__(self, **names: str) -> None:
        self.names = {f"<{name}>": value for name, value in names.items()}

    def told(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def compare(self, expected: Any, found: Any, path: str = "") -> None:
        """Compare what the guide shows with what came; it may leave keys out, and no items."""
        if isinstance(expected, dict):
            for key, value in expected.items():
                assert key in found, f"{path}.{key}"
                self.compare(value, found[key], f"{path}.{key}")
        elif isinstance(expected, list):
            assert len(expected) == len(found), f"{path}: {found}"
            for number, value in enumerate(expected):
                self.compare(value, found[number], f"{path}[{number}]")
        elif isinstance(expected, str) and re.fullmatch(r"<[a-z ]+>", expected):
            assert self.names.setdefault(expected, found) == found, path
        else:
            assert expected == found, path


async def test_files_of_an_application_are_kept_as_the_guide_says() -> None:
    (code,) = re.findall(r"```python\n(blobs = assent.Blobs.*?)```", GUIDE, re.DOTALL)
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    names: dict[str, Any] = {"assent": assent, "AsyncIterator": AsyncIterator}
    exec(f"async def block():\n{lines}\n    return blobs", names)  # noqa: S102
    kept = await names["block"]()
    assert await kept.size("reports/acme/2026-05") is None, "it has run to its end"


async def test_the_story_of_the_guide_is_what_happens(compliance: Compliance) -> None:
    rights = {
        "portals": ["documents:write", "results:push"],
        "reviewers": ["documents:read", "documents:review"],
        "leads": ["documents:read", "workflows:read"],
    }
    async with compliance.database.transaction(None) as connection:
        await hire(connection, {"portal": WorldMember(["portals"], "service_account")})
        await grant(connection, rights)
        await connection.execute("UPDATE assent.members SET roles = '{reviewers}' WHERE user_id = 'vera'")
        await connection.execute("UPDATE assent.members SET roles = '{leads}' WHERE user_id = 'lead'")
    view = await compliance.by(RON).instances.start("clients.kyc")
    await compliance.by(RON).instances.advance(view.id, "completed", CLIENT | {"entity_id": "client-17"})
    door = create_app(App(), compliance.database, SETTINGS, CALLBACKS)
    story, exchanges = Story(instance=str(view.id)), 0
    async with AsyncExitStack() as stack:
        clients: dict[str, AsyncClient] = {}
        for moment in MOMENTS.finditer(GUIDE):
            people = People(door, compliance.clock.now())
            if moment[1] is not None:
                await (compliance.wait(days=7) if moment[1] == "7 days" else compliance.work())
                clients.clear()  # their tokens have grown old
                continue
            for who, method, path, body, status, expected in EXCHANGE.findall(moment[2]):
                if who not in clients:
                    clients[who] = await stack.enter_async_context(people(who))
                sent = {"json": orjson.loads(story.told(body))} if body else {}
                answer = await clients[who].request(method, story.told(path), **sent)
                assert answer.status_code == int(status), f"{who}> {method} {path}: {answer.text}"
                story.compare(orjson.loads(expected), answer.json())
                exchanges += 1
    assert exchanges == GUIDE.count("> GET /") + GUIDE.count("> POST /")
    entries = [row for row in await rows(compliance.database, "audit_log") if row["action"] == "result.push"]
    assert [(row["org_id"], row["actor_id"], row["channel"]) for row in entries] == [
        (ORG, "portal", "http")
    ] * 3
