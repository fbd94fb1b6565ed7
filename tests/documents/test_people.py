"""A company has owners: each of them hands in documents, and the list of them may change while the step rests."""

from typing import Any

import pytest

from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.model.actor import Actor
from assent.runtime import InstanceView
from tests.documents.conftest import RON, Compliance
from tests.world import publish_steps, rows

ROOT = Actor("root", capabilities={"*"})
OWNERS = [{"id": "ann", "email": "ann@mail.example"}, {"id": "ben", "email": "ben@mail.example"}]
KYB: dict[str, Any] = {
    "id": "owners",
    "type": "requirements",
    "requirements": [
        {
            "for_each": "$owners",
            "all": [
                {"type": "requirement_satisfied", "doc_type": "passport", "subject": "$item.id"},
                {
                    "any": [
                        {
                            "type": "requirement_satisfied",
                            "doc_type": "bill",
                            "min_state": "received",
                            "subject": "$item.id",
                        },
                        {
                            "type": "requirement_satisfied",
                            "doc_type": "lease",
                            "min_state": "received",
                            "subject": "$item.id",
                        },
                    ]
                },
            ],
        }
    ],
    "on_fail": {
        "blocker": {
            "type": "MissingOwners",
            "resolution": "(document.solicit-set :subject-entity-id $item.id :doc-types [passport bill]"
            " :notify $item.email)",
        }
    },
}


async def start(compliance: Compliance, step: dict[str, Any] = KYB, owners: Any = OWNERS) -> InstanceView:
    steps = [step, {"id": "done", "type": "terminal"}]
    await publish_steps(
        compliance.database, "kyb", steps, [{"from": "owners", "event": "completed", "to": "done"}]
    )
    return await compliance.by(RON).instances.start("kyb", {"owners": owners})


async def hand_in(compliance: Compliance, subject: str, *doc_types: str) -> list[Any]:
    (request,) = [
        row
        for row in await compliance.requests()
        if row["ended_at"] is None and await subject_of(compliance, row["id"]) == subject
    ]
    found = await compliance.hand_in(*doc_types, subject=subject, request_id=request["id"])
    await compliance.work()
    return found


async def subject_of(compliance: Compliance, request_id: Any) -> str:
    history = await rows(compliance.database, "outside_request_history")
    (body,) = [r["body"] for r in history if r["request_id"] == request_id and r["what"] == "asked"]
    return str(body["subject"])


async def open_subjects(compliance: Compliance) -> list[str]:
    open_ = [row for row in await compliance.requests() if row["ended_at"] is None]
    return sorted([await subject_of(compliance, row["id"]) for row in open_])


async def test_each_owner_is_asked_and_the_company_goes_on_when_all_have_answered(
    compliance: Compliance,
) -> None:
    view = await start(compliance)
    assert await open_subjects(compliance) == ["ann", "ben"]
    letters = sorted(row["payload"]["to"] for row in await rows(compliance.database, "effects"))
    assert letters == ["ann@mail.example", "ben@mail.example"]
    (passport, _) = await hand_in(compliance, "ann", "passport", "bill")
    await compliance.verify(passport)
    described = await compliance.by(ROOT).instances.get(view.id)
    missing = [(one.subject, one.doc_type) for one in described.waiting[0].missing]
    assert missing == [("ben", "passport"), ("ben", "bill"), ("ben", "lease")]
    assert await open_subjects(compliance) == ["ben"]
    (passport, _) = await hand_in(compliance, "ben", "passport", "bill")
    await compliance.verify(passport)
    assert (await compliance.place())[0] == "completed"


async def test_only_the_owner_whose_document_was_rejected_is_asked_again(compliance: Compliance) -> None:
    await start(compliance)
    (passport, _) = await hand_in(compliance, "ann", "passport", "bill")
    await compliance.reject(passport, "UNREADABLE")
    asked = [(one["subject"], [d["doc_type"] for d in one["documents"]]) for one in await compliance.asked()]
    assert asked[-1] == ("ann", ["passport"])
    assert [subject for subject, _ in asked].count("ben") == 1


async def edit_owners(compliance: Compliance, view: InstanceView, owners: list[dict[str, str]]) -> None:
    instances = compliance.by(ROOT).instances
    await instances.pause(view.id, "an owner has changed")
    await instances.edit_variables(view.id, {"owners": owners}, reason="an owner has changed")
    await instances.resume(view.id)
    await compliance.work()


async def test_an_owner_who_joins_is_asked_and_one_who_leaves_blocks_nothing(compliance: Compliance) -> None:
    view = await start(compliance)
    (passport, _) = await hand_in(compliance, "ann", "passport", "bill")
    await compliance.verify(passport)
    cy = {"id": "cy", "email": "cy@mail.example"}
    await edit_owners(compliance, view, [OWNERS[0], cy])
    assert "cy" in await open_subjects(compliance)
    assert "ben" not in await open_subjects(compliance)
    closed = [row for row in await compliance.requests() if await subject_of(compliance, row["id"]) == "ben"]
    assert [row["status"] for row in closed] == ["cancelled"]
    await edit_owners(compliance, view, [OWNERS[0]])
    assert (await compliance.place())[0] == "completed"


async def test_an_owner_who_comes_back_is_asked_again(compliance: Compliance) -> None:
    view = await start(compliance)
    await edit_owners(compliance, view, [OWNERS[0]])
    assert await open_subjects(compliance) == ["ann"]
    await edit_owners(compliance, view, OWNERS)
    assert await open_subjects(compliance) == ["ann", "ben"]


async def test_a_branch_beside_it_may_name_the_owners(compliance: Compliance) -> None:
    steps = [
        {"id": "fork", "type": "parallel_split"},
        KYB,
        {
            "id": "count",
            "type": "wait_event",
            "key": "owners:{workflow.company}",
            "output": {"owners": "result"},
        },
        {"id": "both", "type": "parallel_join", "mode": "all"},
        {"id": "done", "type": "terminal"},
    ]
    ways = [
        {"from": "fork", "to": "owners"},
        {"from": "fork", "to": "count"},
        {"from": "owners", "event": "completed", "to": "both"},
        {"from": "count", "event": "completed", "to": "both"},
        {"from": "both", "to": "done"},
    ]
    await publish_steps(compliance.database, "kyb", steps, ways)
    await compliance.by(RON).instances.start("kyb", {"owners": [OWNERS[0]], "company": "7"})
    assert await open_subjects(compliance) == ["ann"]
    await compliance.by(ROOT).events.emit("owners:7", OWNERS)
    await compliance.work()
    assert await open_subjects(compliance) == ["ann", "ben"]


@pytest.mark.parametrize(
    "owners", [[], None, "ann", [{"email": "a@b.example"}], [{"id": ["a"]}], [{"id": " "}]]
)
async def test_a_company_without_owners_does_not_pass(compliance: Compliance, owners: Any) -> None:
    await start(compliance, owners=owners)
    found = await compliance.instance()
    assert (found["status"], found["incident"]["code"]) == ("paused", "SUBJECT_MISSING")


async def test_a_list_has_a_limit(compliance: Compliance) -> None:
    await start(compliance, owners=[{"id": f"o-{n}", "email": "a@b.example"} for n in range(101)])
    assert "100 people" in (await compliance.instance())["incident"]["message"]


async def test_a_hundred_owners_are_asked_in_one_command(compliance: Compliance) -> None:
    await start(compliance, owners=[{"id": f"o-{n}", "email": f"o-{n}@b.example"} for n in range(100)])
    assert len(await compliance.requests()) == 100


FLOW = """
flow: kyb
version: 1
start: owners
steps:
  - {{id: done, type: terminal}}
states:
  owners:
    requirements:
      - {part}
    on_fail:
      blocker: {{type: Missing, resolution: "(document.solicit :subject-entity-id {who} :doc-type passport)"}}
transitions:
  - {{from: owners, event: completed, to: done}}
"""
PASSPORT = "{type: requirement_satisfied, doc_type: passport}"


@pytest.mark.parametrize(
    ("part", "who", "code"),
    [
        (f"{{for_each: $owners, all: [{PASSPORT}]}}", "$item", None),
        (PASSPORT, "$entity_id", None),
        (f"{{for_each: $owners, all: [{PASSPORT}]}}", "$entity_id", "MISSING_KEY"),
        (PASSPORT, "$item", "MISPLACED_KEY"),
        ("{type: requirement_satisfied, doc_type: passport, subject: $item}", "$entity_id", "MISPLACED_KEY"),
        (f"{{for_each: $a, all: [{{for_each: $b, all: [{PASSPORT}]}}]}}", "$item", "MISPLACED_KEY"),
        (f"{{for_each: $item, all: [{PASSPORT}]}}", "$item", "BAD_VALUE"),
        (f"{{for_each: owners, all: [{PASSPORT}]}}", "$item", "BAD_VALUE"),
        (f"{{for_each: $owners, any: [{PASSPORT}]}}", "$item", "MISSING_KEY"),
        ("{for_each: $owners, all: []}", "$item", "WRONG_TYPE"),
    ],
)
def test_what_cannot_be_meant_is_a_problem(part: str, who: str, code: str | None) -> None:
    source = read_source(FLOW.format(part=part, who=who), "kyb.yaml")
    problems = compile_sources([source]).problems
    assert [one.code for one in problems][:1] == ([code] if code else []), problems
