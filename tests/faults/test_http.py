"""Every route that writes, with its links cut or frozen at every commit: answers and tables agree.

After an answer of success it is done, once. After one of failure, nothing is done. Where the server cannot know, it
says so. And the same request under the same `Idempotency-Key` ends as one that was never disturbed.
"""

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.faults.company import NOW, Acme
from tests.faults.points import TRIES, Laboratory, Point, Trial, complaints_of
from tests.faults.tables import TableChange
from tests.http.application import LEAVE, app
from tests.http.callers import CALLBACKS, bearer, token
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.http.route_table import ROUTES
from tests.http.test_audited import CREATING
from tests.http.test_decision_links import LINKS
from tests.http.test_other_orgs import CASES

KEY = "the-same-key"


@dataclass(frozen=True)
class HttpCall:
    """One request of one person."""

    name: str
    user: str
    method: str
    path: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    form: bool = False
    """Whether the body is the form of a page."""
    by_cookie: bool = False
    """Whether it comes from a browser: with the cookie of a session, or to begin one."""
    repeat_status: int | None = None
    """What the same request gets after it was carried out, where that is no success."""

    def __str__(self) -> str:
        return self.name

    def request_in(self, acme: Acme) -> dict[str, Any]:
        """Return path and body; a text such as `{left_token}` stands for a part of acme."""
        text = json.dumps(self.body)
        for name, part in acme.parts.items():
            text = text.replace(f"{{{name}}}", part)
        body = "data" if self.form else "json"
        return {"url": self.path.format(**acme.parts), body: json.loads(text)}

    def headers_in(self, acme: Acme) -> dict[str, str]:
        """Return what signs the request in, and its own headers."""
        if not self.by_cookie:
            return {**bearer(token(NOW, self.user)), **dict(self.headers)}
        cookie = f"assent={acme.parts['session_token']}"
        return {"Assent-Client": "web", "Origin": "http://assent", "Cookie": cookie}


def _cases() -> list[HttpCall]:
    creating = [
        DONE_HERE.get(name, HttpCall(name, user, method, path, body))
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
            changing.append(HttpCall(route.name, user, method, path, body, tuple(headers.items())))
    return creating + [DONE_HERE.get(call.name, call) for call in changing]


DONE_HERE = {
    call.name: call
    for call in (
        HttpCall(
            "advance_instance",
            "alice",
            "POST",
            "/api/instances/{survey_id}/advance",
            {"event": "completed", "input": {"rating": 4}},
        ),
        HttpCall("retry_instance", "olga", "POST", "/api/instances/{failed_id}/retry", {}),
        HttpCall(
            "reset_requirement",
            "adam",
            "POST",
            "/api/requirements/{waived_id}/reset",
            {"reason": "he is back"},
        ),
        HttpCall("emit_event", "olga", "POST", "/api/events/delivery:7", {"data": {}}),
        HttpCall(
            "complete_background_task",
            "adam",
            "POST",
            "/api/tasks/{background_task_id}/complete",
            {"output": {"pages": 3}},
        ),
        HttpCall(
            "fail_background_task",
            "adam",
            "POST",
            "/api/tasks/{background_task_id}/fail",
            {"message": "no paper"},
        ),
        HttpCall("retry_task", "adam", "POST", "/api/tasks/{dead_task_id}/retry"),
        HttpCall("resume_schedule_of_org", "adam", "POST", "/api/schedules/paused/resume"),
        HttpCall("resume_instance", "olga", "POST", "/api/instances/{paused_id}/resume", {}),
        HttpCall(
            "reassign_form",
            "alice",
            "POST",
            "/api/forms/{step_id}/reassign",
            {"from_user": "alice", "to_user": "max"},
        ),
        HttpCall(
            "save_settings_of_org", "adam", "PUT", "/api/org/settings", {"budget": 7}, (("If-Match", "*"),)
        ),
        HttpCall(
            "skip_step",
            "adam",
            "POST",
            "/api/operations/instances/{failed_id}/skip",
            {"step": "confirm", "edge": "confirm->end"},
        ),
        HttpCall(
            "cancel_token",
            "adam",
            "POST",
            "/api/operations/instances/{split_id}/cancel-token",
            {"token": "{left_token}"},
        ),
        HttpCall(
            "edit_variables",
            "adam",
            "POST",
            "/api/operations/instances/{paused_survey_id}/variables",
            {"variables": {"order": 8}},
        ),
        HttpCall("roll_definition_back", "adam", "POST", "/api/definitions/{earlier_id}/rollback"),
        HttpCall(
            "create_upload_link", "adam", "POST", "/api/outside-requests/{solicited_id}/upload-links", {}
        ),
        HttpCall(
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

CALLBACK = HttpCall(
    "push_result_by_callback",
    "alice",
    "POST",
    "/callbacks/{callback_token}",
    {"key": "k", "items": [{"cargo": "external://vault/7"}]},
)
"""The token in its path is the right to it; it takes no `Idempotency-Key`, for the bundle has one."""
LINK = HttpCall(
    "decide_by_link",
    "fin",
    "POST",
    "/decide/{link_token}",
    {"answer": "approved"},
    form=True,
    repeat_status=410,
)
"""The token in its path is the right to decide, once."""
OF_ACME = (
    HttpCall("retire_signing_secrets", "adam", "POST", "/api/signing-secrets/retire"),
    HttpCall("post_test_alert", "adam", "POST", "/api/org/test-alert"),
    HttpCall("delete_mail_template_of_org", "adam", "DELETE", "/api/mail-templates/escalated/en"),
    HttpCall(
        "complete_task",
        "olga",
        "POST",
        "/api/workflow/task-complete",
        {
            "task_id": "{asked_id}",
            "idempotency_key": "k",
            "items": [{"cargo_ref": "version://assent/{version_id}"}],
        },
    ),
)
"""Acme has what they need; other companies of tests have none of it."""
OF_SESSIONS = (
    HttpCall("renew_session_of_caller", "fin", "POST", "/api/session/renew", by_cookie=True),
    HttpCall("end_session", "fin", "DELETE", "/api/session", by_cookie=True, repeat_status=401),
)
SIGNING_IN = HttpCall("create_session", "fin", "POST", "/api/session", {"key": "{api_key}"}, by_cookie=True)
"""It takes no `Idempotency-Key`: who signs in twice has two sessions."""
NOT_ONE_TRANSACTION = {"upload_document_version", "hand_in_document", "attach_file_to_entity"}
"""An upload commits the row of its file before the first byte: a crash leaves one such row, which a duty deletes
(`test_uploads.py`)."""
CALLS = [
    *(each for each in _cases() if each.name not in NOT_ONE_TRANSACTION),
    CALLBACK,
    LINK,
    *OF_ACME,
    *OF_SESSIONS,
]
WRITE_NOTHING = {"check_definitions", "preview_mail_of_org"}


@pytest.mark.parametrize(
    ("call", "key"), [*((call, key) for call in CALLS for key in (None, KEY)), (SIGNING_IN, None)], ids=str
)
async def test_answers_and_tables_agree(
    laboratory: Laboratory, acme: Acme, call: HttpCall, key: str | None
) -> None:
    async def send(trial: Trial[httpx.Response]) -> httpx.Response:
        door = create_app(app, trial.database, HTTP_SETTINGS, CALLBACKS, LINKS)
        headers = call.headers_in(acme)
        headers |= {"Idempotency-Key": key} if key else {}
        # What the application raises is answered with a problem, as a server does.
        transport = httpx.ASGITransport(door, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://assent", headers=headers
        ) as client:
            return await client.request(call.method, **call.request_in(acme))

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with laboratory.trial(point) as trial:
            await laboratory.run(send, trial)
            assert trial.change is not None
            return trial.change, await _complaint(call, trial, undisturbed, send)

    async with laboratory.trial() as trial:
        undisturbed = await laboratory.run(send, trial)
        order = list(trial.proxy.order)
    assert undisturbed.result is not None
    assert undisturbed.result.is_success, undisturbed.result.text
    # Each freeze lasts for a deadline; without a key, `test_python.py` has them for every command.
    complaints = await complaints_of(disturb, order, freezes=key is not None)
    assert not complaints, "\n".join(complaints)


async def _complaint(
    call: HttpCall, trial: Trial[httpx.Response], undisturbed: Trial[httpx.Response], send: Any
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
        if not _is_done(again) and (change.is_nothing or again.status_code != call.repeat_status):
            return f"{said}; again {again.status_code} {again.text[:200]}"
        if not (found := await trial.look()).is_like(done):
            return f"{said}; after the repeat {found}"
    return None


def _is_done(answer: httpx.Response) -> bool:
    """Whether an answer says that it is done; a secret that was made under a key is shown once only."""
    return answer.is_success or _code(answer) == "SHOWN_ONCE"


def _code(answer: httpx.Response) -> str | None:
    """Return the code of a problem; a page for people has none."""
    is_problem = answer.headers["content-type"].startswith("application/problem+json")
    return str(answer.json()["code"]) if is_problem else None


def _lie(answer: httpx.Response, change: TableChange, done: TableChange) -> str | None:
    if _is_done(answer):
        return None if change.is_like(done) else f"success, and the tables say {change}"
    if answer.status_code == 503 and _code(answer) == "OUTCOME_UNKNOWN":
        return None if change.is_nothing or change.is_like(done) else f"unknown, and half done: {change}"
    return None if change.is_nothing else f"failure, and the tables say {change}"


def test_every_route_that_writes_is_disturbed() -> None:
    writing = {
        route.name
        for route in ROUTES
        if not route.methods & {"GET", "HEAD"} and route.name not in WRITE_NOTHING
    }
    assert writing == {call.name for call in (*CALLS, SIGNING_IN)} | NOT_ONE_TRANSACTION
