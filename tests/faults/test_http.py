"""Every route that writes, with its links cut or frozen at every commit: answers and tables agree.

After an answer of success it is done, once. After one of failure, nothing is done. Where the server cannot know, it
says so. And the same request under the same `Idempotency-Key` ends as one that was never disturbed.
"""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.faults.company import NOW, Acme
from tests.faults.points import TRIES, Laboratory, Point, Trial, complaints_of
from tests.faults.tables import Change
from tests.http.application import LEAVE, app
from tests.http.callers import CALLBACKS, bearer, token
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.http.route_table import ROUTES
from tests.http.test_audited import CREATING
from tests.http.test_other_orgs import CASES

KEY = "the-same-key"


@dataclass(frozen=True)
class Call:
    """One request of one person."""

    name: str
    user: str
    method: str
    path: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name

    def body_in(self, acme: Acme) -> Any:
        """Return the body; a text such as `{left_token}` stands for a part of acme."""
        if not isinstance(self.body, dict):
            return self.body
        parts = {f"{{{name}}}": part for name, part in acme.parts.items()}
        return {
            key: parts.get(value, value) if isinstance(value, str) else value
            for key, value in self.body.items()
        }


def _cases() -> list[Call]:
    creating = [
        DONE_HERE.get(name, Call(name, user, method, path, body))
        for name, (user, method, path, body, _) in CREATING.items()
    ]
    changing = []
    for route in ROUTES:
        if route.name in CASES and not route.methods & {"GET", "HEAD"}:
            user, body, headers = CASES[route.name]
            path = (
                route.path.replace("{definition_id}", "{draft_id}")
                if "/drafts/" in route.path
                else route.path
            )
            path = path.replace("{request_id}", "{asked_id}") if "/api/outside-requests/" in path else path
            (method,) = route.methods
            changing.append(Call(route.name, user, method, path, body, tuple(headers.items())))
    return creating + [DONE_HERE.get(call.name, call) for call in changing]


DONE_HERE = {
    call.name: call
    for call in (
        Call(
            "advance_instance",
            "alice",
            "POST",
            "/api/instances/{survey_id}/advance",
            {"event": "completed", "input": {"rating": 4}},
        ),
        Call("retry_instance", "olga", "POST", "/api/instances/{failed_id}/retry", {}),
        Call("emit_event", "olga", "POST", "/api/events/delivery:7", {"data": {}}),
        Call("retry_task", "adam", "POST", "/api/tasks/{dead_task_id}/retry"),
        Call("resume_instance", "olga", "POST", "/api/instances/{paused_id}/resume", {}),
        Call(
            "reassign_form",
            "alice",
            "POST",
            "/api/forms/{step_id}/reassign",
            {"from_user": "alice", "to_user": "max"},
        ),
        Call("save_settings_of_org", "adam", "PUT", "/api/org/settings", {"budget": 7}, (("If-Match", "*"),)),
        Call(
            "skip_step",
            "adam",
            "POST",
            "/api/operations/instances/{failed_id}/skip",
            {"step": "confirm", "edge": "confirm->end"},
        ),
        Call(
            "cancel_token",
            "adam",
            "POST",
            "/api/operations/instances/{split_id}/cancel-token",
            {"token": "{left_token}"},
        ),
        Call(
            "edit_variables",
            "adam",
            "POST",
            "/api/operations/instances/{paused_survey_id}/variables",
            {"variables": {"order": 8}},
        ),
        Call("roll_definition_back", "adam", "POST", "/api/definitions/{earlier_id}/rollback"),
        Call(
            "change_draft_of_org",
            "adam",
            "PUT",
            "/api/drafts/{draft_id}",
            {"source": {**LEAVE, "flow": "draft", "timeout": "72h"}},
            (("If-Match", "*"),),
        ),
    )
}
"""Routes whose case in `test_other_orgs` asks for something that is refused in acme, with one that is granted."""

CALLBACK = Call(
    "push_result_by_callback",
    "alice",
    "POST",
    "/callbacks/{callback_token}",
    {"key": "k", "items": [{"cargo": "external://vault/7"}]},
)
"""The token in its path is the right to it; it takes no `Idempotency-Key`, for the bundle has one."""
RETIRED = Call("retire_signing_secrets", "adam", "POST", "/api/signing-secrets/retire")
"""Acme has two that sign; other companies of tests have none to retire."""
CALLS = [*_cases(), CALLBACK, RETIRED]


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "under a key"])
@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_answers_and_tables_agree(
    laboratory: Laboratory, acme: Acme, call: Call, key: str | None
) -> None:
    async def send(trial: Trial[httpx.Response]) -> httpx.Response:
        door = create_app(app, trial.database, HTTP_SETTINGS, CALLBACKS)
        headers = {**bearer(token(NOW, call.user)), **dict(call.headers)}
        headers |= {"Idempotency-Key": key} if key else {}
        # What the application raises is answered with a problem, as a server does.
        transport = httpx.ASGITransport(door, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://assent", headers=headers
        ) as client:
            return await client.request(call.method, call.path.format(**acme.parts), json=call.body_in(acme))

    async def disturb(point: Point) -> tuple[Change, str | None]:
        async with laboratory.trial(point) as trial:
            await laboratory.run(send, trial)
            assert trial.change is not None
            return trial.change, await _complaint(trial, undisturbed, send)

    async with laboratory.trial() as trial:
        undisturbed = await laboratory.run(send, trial)
        order = list(trial.proxy.order)
    assert undisturbed.result is not None
    assert undisturbed.result.is_success, undisturbed.result.text
    # The first commit is the sign-in's, which is the same for all; `create_entity` stands for it.
    first = 1 if call.name in ("create_entity", CALLBACK.name) else 2
    # Each freeze lasts for a deadline; without a key, `test_python.py` has them for every command.
    complaints = await complaints_of(disturb, order, first, freezes=key is not None)
    assert not complaints, "\n".join(complaints)


async def _complaint(
    trial: Trial[httpx.Response], undisturbed: Trial[httpx.Response], send: Any
) -> str | None:
    """What is wrong with the answer that a caller got, or with the one to the same request again."""
    answer, change, done = trial.result, trial.change, undisturbed.change
    assert answer is not None
    assert change is not None
    assert done is not None
    said = f"{answer.status_code} {answer.text[:200]}"
    if (wrong := _lie(answer, change, done)) is not None:
        return f"{said}: {wrong}"
    if "idempotency-key" in answer.request.headers or change.is_nothing:
        again = await send(trial)
        for _ in range(TRIES):  # as a client does: on a busy machine a deadline may be over once more
            if again.status_code == 503:
                again = await send(trial)
        if not _is_done(again):
            return f"{said}; again {again.status_code} {again.text[:200]}"
        if not (found := await trial.look()).is_like(done):
            return f"{said}; after the repeat {found}"
    return None


def _is_done(answer: httpx.Response) -> bool:
    """Whether an answer says that it is done; a secret that was made under a key is shown once only."""
    return answer.is_success or answer.json()["code"] == "SHOWN_ONCE"


def _lie(answer: httpx.Response, change: Change, done: Change) -> str | None:
    if _is_done(answer):
        return None if change.is_like(done) else f"success, and the tables say {change}"
    if answer.status_code == 503 and answer.json()["code"] == "OUTCOME_UNKNOWN":
        return None if change.is_nothing or change.is_like(done) else f"unknown, and half done: {change}"
    return None if change.is_nothing else f"failure, and the tables say {change}"


def test_every_route_that_writes_is_disturbed() -> None:
    writing = {
        route.name
        for route in ROUTES
        if not route.methods & {"GET", "HEAD"} and route.name != "check_definitions"
    }
    assert writing == {call.name for call in CALLS}
