"""Uploads, with their links cut or frozen at every commit and every statement: one version, or nothing that stays.

The row of a file is committed before its first byte, so an upload is no one transaction: what a fault leaves of it is a
row and maybe bytes, and the duty `blobs` deletes both. A reply is true at once: a version is there, or it is not.
"""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal
from uuid import UUID

import httpx
import pytest

from assent.model.actor import Actor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.errors import OutcomeUnknown
from assent.worker.blobs import BlobSweep
from assent.worker.duty import WorkerContext
from tests.faults import test_http, test_python
from tests.faults.company import NOW, ORG, Acme
from tests.faults.points import TRIES, Laboratory, Point, Trial, complaints_of
from tests.faults.proxy import COMMIT, Fault
from tests.faults.tables import TableChange
from tests.faults.test_duties import name_of
from tests.faults.test_python import ALICE
from tests.http.application import app
from tests.http.callers import CALLBACKS, bearer, token
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.http.test_decision_links import LINKS
from tests.postgres import SETTINGS, START, Databases
from tests.world import fetch

FILE: Final = b"%PDF-1.7\n" + b"x" * 70_000
PORTAL: Final = Actor("adam", capabilities={"documents:*"})
Outcome = Literal["done", "unknown", "refused"]


@dataclass(frozen=True)
class UploadReply:
    """What a caller got for an upload."""

    outcome: Outcome
    said: str


@dataclass(frozen=True)
class Upload:
    """A way in for a file, and the table in which it makes a row."""

    name: str
    makes: str
    send: Callable[[Trial[Any], dict[str, str]], Awaitable[UploadReply]]
    is_repeatable: bool = False
    """Whether the same upload again is known to be the same."""

    def __str__(self) -> str:
        return self.name


def over_http(user: str | None, path: str, method: str = "PUT", key: str | None = None) -> Any:
    async def send(trial: Trial[Any], parts: dict[str, str]) -> UploadReply:
        door = create_app(app, trial.database, HTTP_SETTINGS, CALLBACKS, LINKS)
        headers = bearer(token(NOW, user)) if user is not None else {}
        headers |= {"Idempotency-Key": key} if key is not None else {}
        transport = httpx.ASGITransport(door, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://assent", headers=headers
        ) as client:
            answer = await client.request(method, path.format(**parts), content=FILE)
        if answer.is_success:
            return UploadReply("done", answer.text)
        return UploadReply("unknown" if "OUTCOME_UNKNOWN" in answer.text else "refused", answer.text[:200])

    return send


def in_python(command: Callable[[Any, dict[str, str]], Awaitable[Any]]) -> Any:
    async def send(trial: Trial[Any], parts: dict[str, str]) -> UploadReply:
        try:
            made = await command(app.runtime(trial.database), parts)
        except OutcomeUnknown as error:
            return UploadReply("unknown", repr(error))
        except Exception as error:
            return UploadReply("refused", repr(error)[:200])
        return UploadReply("done", repr(made)[:200])

    return send


VERSIONS: Final = "/api/documents/{document_id}/versions?name=a.pdf"
ATTACHMENTS: Final = "/api/entities/invoice/{draft_invoice_id}/attachments?name=a.pdf"
UPLOADS: Final = (
    Upload("upload_document_version", "document_versions", over_http("adam", VERSIONS)),
    Upload(
        "upload_document_version under a key", "document_versions", over_http("adam", VERSIONS, key="k"), True
    ),
    Upload("attach_file_to_entity", "entity_versions", over_http("alice", ATTACHMENTS), True),
    Upload(
        "hand_in_document",
        "document_versions",
        over_http(None, "/uploads/{upload_token}/passport", "POST"),
        True,
    ),
    Upload(
        "documents.add_version",
        "document_versions",
        in_python(
            lambda runtime, parts: runtime.org(ORG, PORTAL).documents.add_version(
                UUID(parts["document_id"]), content=FILE
            )
        ),
    ),
    Upload(
        "attachments.add",
        "entity_versions",
        in_python(
            lambda runtime, parts: runtime.org(ORG, ALICE).attachments.add(
                UUID(parts["draft_invoice_id"]), FILE, file_name="a.pdf"
            )
        ),
        True,
    ),
)


@dataclass(frozen=True)
class UploadDesk:
    """Copies of acme with an upload link, one folder of files for all of them, and what each of them keeps there."""

    laboratory: Laboratory
    parts: dict[str, str]
    folder: Path
    kept: set[str]

    def files(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in self.folder.rglob("*") if one.is_file()}

    async def sweep(self, trial: Trial[Any]) -> int:
        """Delete what uploads left, two days later; return how much could not be deleted."""
        trial.database.clock.advance(timedelta(days=2))  # type: ignore[attr-defined]
        duty, failed = BlobSweep(WorkerContext(trial.database, runtime=app.runtime(trial.database))), 0
        while (run := await duty.run_once()).count:
            failed += run.parts["failed"]
        return failed + run.parts.get("failed", 0)

    async def wrong_with_files(self, trial: Trial[Any], before: set[Any]) -> str | None:
        """Say what is wrong with rows and files; remember which files this copy keeps."""
        rows = [
            row
            for row in await fetch(trial.database, "SELECT id, status FROM assent.blobs")
            if row["id"] not in before
        ]
        if [row["status"] for row in rows] != ["kept"]:
            return f"rows of files: {[dict(row) for row in rows]}"
        (name,) = (str(row["id"]) for row in rows)
        self.kept.add(name)
        return None if self.files().get(name) == FILE else f"the bytes of {name} are not there"


async def files_of(trial: Trial[Any]) -> set[UUID]:
    return {row["id"] for row in await fetch(trial.database, "SELECT id FROM assent.blobs")}


@pytest.fixture(scope="module")
async def linked(databases: Databases, acme: Acme) -> AsyncIterator[tuple[Laboratory, dict[str, str]]]:
    """Copies of acme in which the outside party of a request has a link."""
    async with databases.fresh(acme.template) as url:
        database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START))
        try:
            requests = app.runtime(database).org(ORG, PORTAL).requests
            link = await requests.upload_link(UUID(acme.parts["solicited_id"]), base_url="http://assent")
        finally:
            await database.close()
        parts = acme.parts | {"upload_token": link.url.rpartition("/")[2]}
        yield Laboratory(databases, name_of(url)), parts


@pytest.fixture
def upload_desk(
    linked: tuple[Laboratory, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> UploadDesk:
    folder = tmp_path / "files"
    monkeypatch.setenv("ASSENT_BLOBS", folder.as_uri())
    return UploadDesk(*linked, folder, set())


@pytest.mark.parametrize("upload", UPLOADS, ids=str)
async def test_an_upload_is_one_version_or_nothing_that_stays(
    upload_desk: UploadDesk, upload: Upload
) -> None:
    laboratory = upload_desk.laboratory

    async def give(trial: Trial[UploadReply]) -> UploadReply:
        return await upload.send(trial, upload_desk.parts)

    async with laboratory.trial() as trial:
        before = await files_of(trial)
        trial.proxy.clear()
        undisturbed = (await laboratory.run(give, trial)).result
        order = list(trial.proxy.order)
        assert undisturbed is not None
        assert undisturbed.outcome == "done", undisturbed.said
        await upload_desk.sweep(trial)
        done = await trial.look()
        assert done.rows[upload.makes] == 1
        assert await upload_desk.wrong_with_files(trial, before) is None

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with laboratory.trial(point) as trial:
            struck = (await laboratory.run(give, trial)).result
            assert struck is not None
            assert trial.change is not None
            return trial.change, await _complaint(trial, struck, trial.change)

    async def _complaint(trial: Trial[Any], struck: UploadReply, change: TableChange) -> str | None:
        is_made = change.rows.get(upload.makes, 0) > 0
        if is_made if struck.outcome == "refused" else struck.outcome == "done" and not is_made:
            return f"{struck}, and the tables say {change}"
        if not is_made or upload.is_repeatable:
            for _ in range(TRIES):
                again = await give(trial)
                # "Try again" is an answer too, while connections that were cut are found out.
                if again.outcome != "unknown" and "UNAVAILABLE" not in again.said:
                    break
            if again.outcome != "done":
                return f"{struck}; again {again}"
        if await upload_desk.sweep(trial):
            return f"{struck}; the sweep could not delete what was left"
        after = await trial.look()
        if not after.is_like(done):
            return f"{struck}; in the end {after}, expected {done}"
        return await upload_desk.wrong_with_files(trial, before)

    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)
    assert set(upload_desk.files()) == upload_desk.kept, "expected no file that no version has"


@pytest.mark.parametrize("upload", UPLOADS, ids=str)
async def test_a_store_that_is_lost_between_the_bytes_and_the_commit_is_swept_when_it_is_back(
    upload_desk: UploadDesk, upload: Upload
) -> None:
    place, aside = upload_desk.folder / ORG, upload_desk.folder / "aside"

    async with upload_desk.laboratory.trial() as trial:
        await upload.send(trial, upload_desk.parts)
        order = trial.proxy.order
        nth = 1 + order[: order.index("keep_blob_if_uploading")].count(COMMIT)
    shutil.rmtree(upload_desk.folder)

    async with upload_desk.laboratory.trial() as trial:

        def lose() -> None:
            """Lose the store, and the database as well: nobody can tidy up."""
            place.rename(aside)
            place.touch()  # a file in place of the folder: nothing can be deleted in it
            trial.proxy.refuse()

        before = await files_of(trial)
        trial.proxy.clear()
        fault = trial.proxy.arm(Fault(COMMIT, nth=nth, moment="before", action="cut", on_strike=lose))
        attempt = await upload.send(trial, upload_desk.parts)
        assert fault.struck
        assert attempt.outcome != "done"
        trial.proxy.admit()
        assert (await trial.look()).rows.get(upload.makes, 0) == 0
        assert [one.read_bytes() for one in aside.rglob("*") if one.is_file()] == [FILE]
        assert await upload_desk.sweep(trial) == 1
        place.unlink()
        aside.rename(place)
        assert await upload_desk.sweep(trial) == 0
        assert upload_desk.files() == {}
        assert await files_of(trial) == before


def test_every_upload_is_disturbed() -> None:
    """What the other lists excuse, because it is no one transaction, is tried here."""
    tried = {upload.name.partition(" ")[0] for upload in UPLOADS}
    assert tried == test_http.NOT_ONE_TRANSACTION | test_python.NOT_ONE_TRANSACTION | {
        "documents.add_version"
    }
