"""Files attached to entities: each is a part of the content, so attaching and removing are edits, and nothing less."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from assent.app import App
from assent.documents.blobs import Blobs
from assent.documents.files import NewFile
from assent.model.actor import Actor
from assent.model.contract import contract_from
from assent.model.mutation import Command, Entity, Refused
from assent.runtime import Runtime
from assent.runtime import attachment_commands as commands
from assent.runtime.attachment_commands import attach
from assent.runtime.file_commands import receive_file
from assent.runtime.runtime import OrgRuntime
from assent.store.database import Database
from assent.worker.blobs import BlobSweep
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from tests.authored import invoice_contract
from tests.documents.test_commands import refused
from tests.documents.test_files import PDF, kept_files
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.world import (
    ANN,
    EXPENSE,
    FIN,
    LARGE,
    MIDDLE,
    ORG,
    OTHER_ORG,
    create,
    create_invoice,
    decide,
    drain,
    edit_invoice,
    found_acme_with_invoices,
    insert_org,
    rows,
    submit,
)

BOTH = Actor("fay", roles=frozenset({"clerk", "finance_manager"}))
"""A person who may edit invoices and is asked to approve them."""
ERASER = Actor("lead", capabilities=frozenset({"documents:erase"}))


def leave(entity: Entity, payload: Any) -> dict[str, Any]:
    """An action of the application that would write attachments."""
    return {"_attachments": {}}


@pytest.fixture
async def runtime(database: Database, blobs: Blobs) -> Runtime:
    await found_acme_with_invoices(database)
    async with database.transaction(None) as connection:
        await insert_org(connection, OTHER_ORG)
        await connection.execute(
            "UPDATE assent.members SET roles = '{clerk, finance_manager}' WHERE org_id = $1 AND user_id = 'fay'",
            ORG,
        )
    hidden = {**EXPENSE, "permissions": {**EXPENSE["permissions"], "read": ["manager"]}}
    app = App([invoice_contract(), contract_from(hidden)])
    app.action("invoice.leave")(leave)
    return app.runtime(database, blobs)


def by(runtime: Runtime, who: Actor = ANN, org: str = ORG, partition: str | None = None) -> OrgRuntime:
    return runtime.org(org, who, partition)


async def current(runtime: Runtime, entity: Entity) -> Entity:
    return await by(runtime).entities.get(entity.id)


async def statuses(runtime: Runtime, entity: Entity) -> list[str]:
    asked = await rows(runtime.database, "approval_requests")
    return [one["status"] for one in asked if one["entity_id"] == entity.id]


async def sweep(runtime: Runtime) -> None:
    await exhaust(BlobSweep(WorkerContext(runtime.database, runtime=runtime)), lambda run: None)


async def test_attachment_is_a_part_of_the_version_that_is_approved(runtime: Runtime, tmp_path: Path) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    added = await by(runtime).attachments.add(invoice.id, PDF, file_name="../Päper.pdf", reason="it came")
    at_2 = added.entity
    assert (at_2.version, at_2.data, at_2.attachments) == (
        2,
        invoice.data,
        {str(added.attachment.id): added.attachment.sha256},
    )
    assert at_2.content_hash != invoice.content_hash
    (audited,) = [one for one in await rows(runtime.database, "audit_log") if one["to_version"] == 2]
    assert (audited["action"], audited["actor_id"], audited["reason"]) == ("invoice.attach", "ann", "it came")
    assert audited["changes"] == {"_attachments": [None, dict(at_2.attachments)]}

    view = await submit(runtime, at_2)
    (waiting,) = view.waiting
    shown = await by(runtime, FIN).approvals.get(waiting.request_id)  # type: ignore[arg-type]
    assert shown.snapshot == at_2.whole_data
    await decide(runtime, view, waiting.name, FIN)
    (record,) = (await by(runtime).entities.decisions(invoice.id)).items
    assert record.is_intact
    assert record.snapshot == at_2.whole_data
    approved = await current(runtime, invoice)
    assert (approved.state, approved.attachments) == ("active", at_2.attachments)
    (listed,) = await by(runtime).attachments.list(invoice.id)
    assert (listed.file_name, listed.content_type, listed.attached_by) == (
        "Päper.pdf",
        "application/pdf",
        "ann",
    )
    opened = await by(runtime).attachments.download(invoice.id, listed.id, tmp_path / "saved")
    assert ((tmp_path / "saved").read_bytes(), opened.name) == (PDF, "Päper.pdf")


@pytest.mark.parametrize("change", ["attach", "remove", "same", "erase"])
async def test_change_while_people_decide_voids_what_they_have_approved(
    runtime: Runtime, change: str
) -> None:
    invoice = await create_invoice(runtime, LARGE)
    there = (await by(runtime).attachments.add(invoice.id, PDF)).attachment
    view = await submit(runtime, invoice)
    await decide(runtime, view, "finance", FIN)
    assert sorted(await statuses(runtime, invoice)) == ["approved", "pending"]
    attachments = by(runtime).attachments
    made: dict[str, Awaitable[Any]] = {
        "attach": attachments.add(invoice.id, b"more"),
        "remove": attachments.remove(invoice.id, there.id, "not this one"),
        "same": attachments.add(invoice.id, PDF),
        "erase": by(runtime, ERASER).attachments.erase(invoice.id, there.id, "asked for"),
    }
    await made.pop(change)
    for other in made.values():
        other.close()  # type: ignore[attr-defined]
    is_edit = change in ("attach", "remove")
    assert sorted(await statuses(runtime, invoice)) == (["void"] * 2 if is_edit else ["approved", "pending"])
    await drain(runtime)
    after = await current(runtime, invoice)
    assert (after.state, after.version) == ("amended" if is_edit else "submitted", 5 if is_edit else 3)


async def test_who_attaches_does_not_approve(runtime: Runtime) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    await by(runtime, BOTH).attachments.add(invoice.id, PDF)
    view = await submit(runtime, invoice)
    with pytest.raises(Refused, match="SEPARATION_OF_DUTIES"):
        await decide(runtime, view, "one", BOTH)
    assert (await decide(runtime, view, "one", FIN)).status == "completed"


async def test_locked_entity_takes_no_file_also_when_it_was_locked_meanwhile(
    runtime: Runtime, blobs: Blobs
) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    scope = by(runtime).scope

    async def locked_meanwhile() -> None:
        async with receive_file(scope, PDF, NewFile("a.pdf"), 1_000_000) as file:
            view = await submit(runtime, invoice)
            await decide(runtime, view, "one", FIN)
            await attach(scope, invoice.id, file)

    await refused("WORKFLOW_EDIT_LOCKED", locked_meanwhile())
    begun = False

    async def parts() -> Any:
        nonlocal begun
        begun = True
        yield PDF

    with pytest.raises(Refused, match="WORKFLOW_EDIT_LOCKED"):
        await by(runtime).attachments.add(invoice.id, parts())
    assert not begun
    assert (kept_files(blobs), await rows(runtime.database, "blobs")) == ([], [])
    assert (await current(runtime, invoice)).attachments == {}


async def test_removed_file_stays_with_the_versions_that_had_it(runtime: Runtime, blobs: Blobs) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    attachments = by(runtime).attachments
    first, second = [(await attachments.add(invoice.id, each)).attachment for each in (PDF, b"text")]
    after = await attachments.remove(invoice.id, first.id, "the wrong one")
    assert (after.version, [*after.attachments]) == (4, [str(second.id)])
    assert [one.id for one in await attachments.list(invoice.id)] == [second.id]
    versions = (await by(runtime).entities.versions(invoice.id)).items
    assert [len(one.attachments) for one in versions] == [1, 2, 1, 0]
    assert await (await attachments.open(invoice.id, first.id)).read() == PDF
    await sweep(runtime)
    assert len(kept_files(blobs)) == 2
    with pytest.raises(Refused, match="NOT_FOUND"):
        await attachments.remove(invoice.id, first.id, "again")
    (entry,) = [one for one in await rows(runtime.database, "audit_log") if one["action"] == "invoice.detach"]
    assert entry["reason"] == "the wrong one"


async def test_same_bytes_again_change_nothing_and_two_at_once_are_both_there(
    runtime: Runtime, blobs: Blobs
) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    attachments = by(runtime).attachments
    added = await asyncio.gather(*(attachments.add(invoice.id, each) for each in (PDF, b"text", PDF)))
    assert sorted(one.is_new for one in added) == [False, True, True]
    assert (await current(runtime, invoice)).version == 3
    assert len(await attachments.list(invoice.id)) == len(kept_files(blobs)) == 2
    await refused("VERSION_CONFLICT", attachments.add(invoice.id, PDF, expected_version=1))
    await refused("POLICY_DENIED", by(runtime, FIN).attachments.add(invoice.id, PDF))


async def test_erased_file_is_gone_and_its_hash_stays_in_the_versions(runtime: Runtime, blobs: Blobs) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    attachments, eraser = by(runtime).attachments, by(runtime, ERASER).attachments
    added = await attachments.add(invoice.id, PDF, file_name="cy.pdf")
    there = added.attachment
    await refused("POLICY_DENIED", attachments.erase(invoice.id, there.id, "asked for"))
    erased = await eraser.erase(invoice.id, there.id, "asked for")
    assert (erased.is_erased, erased.file_name) == (True, None)
    assert (await current(runtime, invoice)) == added.entity
    await refused("NOT_FOUND", attachments.open(invoice.id, there.id))
    await refused("FILE_ERASED", eraser.erase(invoice.id, there.id, "again"))
    await sweep(runtime)
    assert kept_files(blobs) == []
    (row,) = await rows(runtime.database, "blobs")
    assert (row["status"], row["file_name"], row["sha256"]) == ("deleted", None, there.sha256)
    again = await attachments.add(invoice.id, PDF)
    assert (again.is_new, [one.is_erased for one in await attachments.list(invoice.id)]) == (
        True,
        [True, False],
    )
    (entry,) = [
        one for one in await rows(runtime.database, "audit_log") if one["subject_kind"] == "attachment"
    ]
    assert (entry["entity_id"], entry["details"]) == (invoice.id, {"reason": "asked for"})


async def test_files_are_as_visible_as_their_entity(runtime: Runtime) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    other = await create_invoice(runtime, {**MIDDLE, "number": "2"})
    there = (await by(runtime).attachments.add(invoice.id, PDF)).attachment
    expense = await create(runtime.core.kernel, "expense", {"title": "Taxi", "total": 1})
    hidden = (await by(runtime).attachments.add(expense.id, PDF)).attachment  # who may write it may attach
    manager = by(runtime, Actor("max", roles=frozenset({"manager"}))).attachments
    assert [one.id for one in await manager.list(expense.id)] == [hidden.id]
    for hidden_from in (by(runtime).attachments, by(runtime, FIN).attachments):
        await refused("POLICY_DENIED", hidden_from.list(expense.id))
        await refused("POLICY_DENIED", hidden_from.open(expense.id, hidden.id))
    for elsewhere in (by(runtime, org=OTHER_ORG), by(runtime, partition="north")):
        for call in (
            elsewhere.attachments.list(invoice.id),
            elsewhere.attachments.open(invoice.id, there.id),
            elsewhere.attachments.add(invoice.id, b"x"),
            elsewhere.attachments.remove(invoice.id, there.id, "x"),
        ):
            await refused("NOT_FOUND", call)
    await refused("NOT_FOUND", by(runtime).attachments.open(other.id, there.id))
    await refused("NOT_FOUND", by(runtime, ERASER).attachments.erase(other.id, there.id, "x"))
    await refused("NOT_FOUND", manager.list(invoice.id, entity_type="expense"))


async def test_amendment_begins_with_the_files_of_what_it_amends(runtime: Runtime) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    there = (await by(runtime).attachments.add(invoice.id, PDF)).attachment
    view = await submit(runtime, invoice)
    await decide(runtime, view, "one", FIN)
    amended = (await by(runtime).entities.mutate("invoice.amend", {"grand_total": 80_000}, invoice.id)).entity
    assert amended.attachments == {str(there.id): there.sha256}
    assert await (await by(runtime).attachments.open(amended.id, there.id)).read() == PDF
    after = await by(runtime).attachments.remove(amended.id, there.id, "not of this one")
    assert after.attachments == {}
    assert [one.id for one in await by(runtime).attachments.list(invoice.id)] == [there.id]


async def test_only_the_commands_of_attachments_write_them(runtime: Runtime) -> None:
    invoice = await create_invoice(runtime, MIDDLE)
    await by(runtime).attachments.add(invoice.id, PDF)
    forged = {"_attachments": {"x": "0" * 64}}
    await refused("UNKNOWN_FIELD", edit_invoice(runtime, invoice.id, **forged))
    await refused("UNKNOWN_FIELD", create_invoice(runtime, {**MIDDLE, **forged}))
    manager = Actor("max", capabilities=frozenset({"invoice:leave"}))
    await refused(
        "UNKNOWN_FIELD", runtime.core.kernel.mutate(Command(ORG, "invoice.leave", manager, {}, invoice.id))
    )
    assert len((await current(runtime, invoice)).attachments) == 1


async def test_number_of_files_is_limited(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "ATTACHMENTS_MAX", 2)
    invoice = await create_invoice(runtime, MIDDLE)
    for content in (b"1", b"2"):
        await by(runtime).attachments.add(invoice.id, content)
    await refused("TOO_MANY_ATTACHMENTS", by(runtime).attachments.add(invoice.id, b"3"))
    await refused("EMPTY_FILE", by(runtime).attachments.add((await create_invoice(runtime, LARGE)).id, b""))


async def test_file_is_attached_and_downloaded_over_http(
    runtime: Runtime, database: Database, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENT_BLOBS", blobs.settings.place)
    monkeypatch.setenv("ASSENT_BLOB_BYTES_MAX", "100000")
    invoice = await create_invoice(runtime, MIDDLE)
    people = People(
        create_app(App([invoice_contract()]), database, SETTINGS, CALLBACKS), database.clock.now()
    )
    path = f"/api/entities/invoice/{invoice.id}/attachments"
    async with people("ann") as ann, people("fin") as fin:

        async def put(content: bytes, **headers: str) -> Any:
            return await ann.put(path, params={"name": "a.html"}, content=content, headers=headers)

        assert problem(await put(PDF, **{"if-match": '"7"'}), 412)["code"] == "VERSION_CONFLICT"
        assert problem(await put(b""), 422)["code"] == "EMPTY_FILE"
        assert problem(await put(b"x" * 100_001), 413)["code"] == "FILE_TOO_LARGE"
        keyed = {"idempotency-key": "k-1"}
        first, again, same = await put(PDF, **keyed), await put(PDF, **keyed), await put(PDF)
        assert [one.status_code for one in (first, again, same)] == [201, 201, 200]
        assert first.json() == again.json() == same.json()
        assert (first.headers["etag"], same.headers["etag"]) == ('"2"', '"2"')
        assert problem(await fin.put(path, content=b"x"), 403)["code"] == "POLICY_DENIED"
        assert (await ann.get(path)).json() == {"items": [first.json()], "next": None}
        file = f"{path}/{first.json()['id']}"
        content = await fin.get(f"{file}/content", headers={"range": "bytes=0-3"})
        assert (content.status_code, content.content) == (206, PDF[:4])
        assert content.headers["content-disposition"].startswith('attachment; filename="a.html.pdf"')
        assert "sandbox" in content.headers["content-security-policy"]
        tag = {"if-none-match": f'"{first.json()["sha256"]}"'}
        assert (await fin.get(f"{file}/content", headers=tag)).status_code == 304
        past_the_end = await fin.get(f"{file}/content", headers={"range": "bytes=99999999-"})
        assert problem(past_the_end, 416)["code"] == "RANGE_NOT_SATISFIABLE"
        removed = await ann.post(f"{file}/remove", json={"reason": "wrong"}, headers={"if-match": '"2"'})
        assert (removed.json()["version"], removed.json()["attachments"]) == (3, {})
        assert problem(await ann.post(f"{file}/remove", json={"reason": "again"}), 404)["code"] == "NOT_FOUND"
        missing = await ann.get(f"{path}/{invoice.id}/content")
        assert problem(missing, 404)["code"] == "NOT_FOUND"
        for each in kept_files(blobs):
            each.unlink()
        assert problem(await ann.get(f"{file}/content"), 503)["code"] == "BLOBS_UNAVAILABLE"
