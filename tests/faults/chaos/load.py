"""The load: what clients want, and every answer that they got."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import httpx

from tests.faults.chaos.application import ORGS
from tests.faults.chaos.plant import Plant
from tests.http.callers import bearer, token
from tests.receiver import Received, ReceiverReply

ANSWER_MAX_S: Final = 20.0
"""How long a client waits for an answer; then it has none."""
PAUSE_S: Final = 0.2
NO_ANSWER: Final = "no answer"
NOT_REACHED: Final = "not reached"
"""Nobody listened: the request was not sent, and is no request."""
UNKNOWN: Final = "OUTCOME_UNKNOWN"


@dataclass
class Intent:
    """Something that a client wants done once, and what was said about it."""

    kind: str
    org: str
    number: str
    keyed: bool
    answers: list[str] = field(default_factory=list)
    """In order: `2xx`, the code of a problem, or that none came."""

    @property
    def is_done(self) -> bool:
        """Whether a client was given success."""
        return "2xx" in self.answers

    @property
    def is_open(self) -> bool:
        """Whether a client cannot know what became of it."""
        return not self.is_done and any(answer in (NO_ANSWER, UNKNOWN) for answer in self.answers)


class Load:
    """Clients that go on until they are stopped, and then finish what they have begun."""

    def __init__(self, plant: Plant, seed: int, clients: int = 6) -> None:
        self._plant = plant
        self._chance = random.Random(seed)  # noqa: S311 - the same seed is the same run
        self._clients = clients
        self._seed = seed
        self._stopping = asyncio.Event()
        self._http: dict[tuple[str, str], httpx.AsyncClient] = {}
        self._callbacks: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._calling_back: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.intents: list[Intent] = []
        self.statuses: Counter[str] = Counter()

    async def run(self) -> None:
        """Until `stop`; then until what was begun has an answer. Results are sent until `close`."""
        self._plant.receiver.otherwise = self._receive
        self._calling_back = asyncio.create_task(self._call_back())
        await asyncio.gather(*(self._client(number) for number in range(self._clients)))

    def stop(self) -> None:
        self._stopping.set()

    async def close(self) -> None:
        if self._calling_back is not None:
            self._calling_back.cancel()
        for client in self._http.values():
            await client.aclose()

    async def _client(self, client: int) -> None:
        count = 0
        while not self._stopping.is_set():
            count += 1
            org, number = self._chance.choice(ORGS), f"{self._seed}-{client}-{count}"
            if self._chance.random() < 0.6:
                await self._document(org, number)
            else:
                await self._errand(org, number)

    async def _document(self, org: str, number: str) -> None:
        keyed = self._chance.random() < 0.6
        body = {"data": {"number": number, "total": 100}}
        created = await self._want("create", org, "ann", number, "/api/entities/order", body, keyed=keyed)
        if created is None:
            return
        place = f"/api/entities/order/{created['id']}/transitions/submit"
        moved = await self._want("submit", org, "ann", number, place, {}, keyed=True)
        if moved is None:
            return
        keyed = self._chance.random() < 0.5
        request = moved["instance"]["steps"][0]["request_id"]
        answer = {"answer": "approved"}
        await self._want(
            "decide", org, "bea", number, f"/api/approvals/{request}/decide", answer, keyed=keyed
        )

    async def _errand(self, org: str, number: str) -> None:
        await self._want(
            "start", org, "ann", number, "/api/flows/errand/start", {"number": number}, keyed=True
        )
        await self._want("emit", org, "ops", number, f"/api/events/paid:{number}", {"data": {}}, keyed=True)

    async def _want(  # noqa: PLR0913, PLR0917
        self, kind: str, org: str, user: str, number: str, path: str, body: Any, *, keyed: bool
    ) -> Any:
        """Send a command: under a key until it is answered, without one a single time. Return what it answered."""
        intent = Intent(kind, org, number, keyed)
        self.intents.append(intent)
        headers = {"Idempotency-Key": uuid4().hex} if keyed else {}
        while True:
            answer, found = await self._send(org, user, path, body, headers)
            if answer == NOT_REACHED:
                await asyncio.sleep(PAUSE_S)
                continue
            intent.answers.append(answer)
            self.statuses[answer] += 1
            if answer == "2xx":
                return found
            if not keyed or answer not in (NO_ANSWER, UNKNOWN, "UNAVAILABLE", "BUSY", "RATE_LIMITED"):
                return None
            await asyncio.sleep(PAUSE_S)

    async def _send(
        self, org: str, user: str, path: str, body: Any, headers: dict[str, str]
    ) -> tuple[str, Any]:
        port = self._chance.choice(self._plant.ports)
        try:
            async with asyncio.timeout(ANSWER_MAX_S):
                client = self._client_of(org, user)
                response = await client.post(f"http://127.0.0.1:{port}{path}", json=body, headers=headers)
        except httpx.ConnectError:
            return NOT_REACHED, None
        except (httpx.HTTPError, TimeoutError):
            return NO_ANSWER, None
        if response.is_success:
            return "2xx", response.json()
        return str(response.json().get("code", response.status_code)), None

    def _client_of(self, org: str, user: str) -> httpx.AsyncClient:
        if (org, user) not in self._http:
            text = token(datetime.now(UTC), user, org, exp=datetime.now(UTC) + timedelta(days=7))
            self._http[org, user] = httpx.AsyncClient(headers=bearer(text), timeout=ANSWER_MAX_S)
        return self._http[org, user]

    def _receive(self, received: Received) -> ReceiverReply:
        """Answer a call; one that asks for a result gets it later, by the address that came with it."""
        if received.path == "/ask":
            asked = (received.headers["assent-callback"], received.json["number"])
            self._loop.call_soon_threadsafe(self._callbacks.put_nowait, asked)
        return ReceiverReply()

    async def _call_back(self) -> None:
        async with httpx.AsyncClient(timeout=ANSWER_MAX_S) as client:
            while True:
                url, number = await self._callbacks.get()
                bundle = {"key": number, "items": [{"cargo": f"external://vault/{number}"}]}
                try:
                    answered = (await client.post(url, json=bundle)).is_success
                except httpx.HTTPError:
                    answered = False
                if not answered:
                    await asyncio.sleep(PAUSE_S)
                    self._callbacks.put_nowait((url, number))
