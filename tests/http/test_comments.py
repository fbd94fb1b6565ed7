"""Comments on entities, and questions of approvers to a person whose work they are to approve."""

import asyncio
from uuid import uuid4

import pytest

from tests.http.callers import problem
from tests.http.test_approvals import act, asked, submitted
from tests.world import ORG, rows

TEXT = "Which project is this for?"


async def ask(people, request_id, user="fin", text=TEXT, **more):
    async with people(user) as client:
        return await client.post(f"/api/approvals/{request_id}/questions", json={"text": text, **more})


async def answer(people, question_id, user="alice", text="For the new office."):
    async with people(user) as client:
        return await client.post(f"/api/questions/{question_id}/answer", json={"text": text})


async def inbox(people, user, **more):
    async with people(user) as client:
        return (await client.get("/api/inbox", params=more)).json()["items"]


async def questioned(people) -> tuple[str, str, str]:
    """An invoice that alice submitted and fin asks about: where it is, the request, the question."""
    place, request_id = await submitted(people)
    found = await ask(people, request_id)
    assert found.status_code == 201, found.text
    return place, request_id, found.json()["id"]


async def noted(furnished, kind):
    return [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == kind]


async def comment(people, place, text, user="alice"):
    async with people(user) as client:
        return await client.post(f"{place}/comments", json={"text": text})


async def test_a_question_waits_for_the_submitter_and_its_answer_for_the_approver(people, furnished):
    place, request_id, question_id = await questioned(people)
    (item,) = await inbox(people, "alice")
    assert (item["kind"], item["request_id"], item["question"]) == ("question", question_id, TEXT)
    assert (item["requested_by"], item["bucket"], item["version"]) == ("fin", "mine", 2)
    (waiting,) = await inbox(people, "fin", kind="approval")
    assert waiting["questions"] == 1

    replied = (await answer(people, question_id)).json()
    assert (replied["status"], replied["answer"]) == ("answered", "For the new office.")
    assert await inbox(people, "alice") == []
    async with people("fin") as client:
        (shown,) = (await client.get(f"/api/approvals/{request_id}/questions")).json()["items"]
        (on_entity,) = (await client.get(f"{place}/comments")).json()["items"]
        request = (await client.get(f"/api/approvals/{request_id}")).json()
    assert shown == replied == on_entity
    assert (request["status"], request["requested_by"], request["questions"]) == ("pending", "alice", 1)
    done = await act(people, "fin", request_id, "decide", {"answer": "approved"})
    assert done.json()["request"]["status"] == "approved"
    entries = await noted(furnished, "question")
    assert sorted((entry["action"], entry["actor_id"], entry["subject_id"]) for entry in entries) == [
        ("question.answer", "alice", question_id),
        ("question.ask", "fin", question_id),
    ]


async def test_question_and_answer_are_mailed_to_the_one_who_is_to_read_them(people, furnished):
    async with furnished.transaction(ORG) as connection:
        await connection.execute("UPDATE assent.members SET email = user_id || '@example.com'")
    _, _, question_id = await questioned(people)
    await answer(people, question_id)
    mails = [row["payload"] for row in await rows(furnished, "effects")]
    sent = {mail["mail"]["kind"]: (mail["user"], mail["page"], mail["mail"]["facts"]) for mail in mails}
    assert sent["questioned"][:2] == ("alice", "questions")
    assert sent["questioned"][2] == {"by": "fin", "what": "one: 2026-17", "comment": TEXT}
    assert sent["answered"][:2] == ("fin", "approvals")
    assert (sent["answered"][2]["question"], sent["answered"][2]["comment"]) == (TEXT, "For the new office.")


async def test_an_answer_makes_no_originator_and_takes_none_away(people, furnished):
    _, request_id, question_id = await questioned(people)
    before = (await rows(furnished, "approval_requests"))[0]["originators"]
    await answer(people, question_id)
    assert (await rows(furnished, "approval_requests"))[0]["originators"] == before == ["alice"]
    refused = await act(people, "alice", request_id, "decide", {"answer": "approved"})
    assert problem(refused, 403)["code"] in ("POLICY_DENIED", "SEPARATION_OF_DUTIES")


@pytest.mark.parametrize(
    ("user", "status", "codes"),
    [
        ("alice", 403, ("SEPARATION_OF_DUTIES", "POLICY_DENIED")),
        ("bob", 403, ("POLICY_DENIED",)),
        ("olga", 403, ("POLICY_DENIED",)),
    ],
)
async def test_only_an_approver_asks(people, furnished, user, status, codes):
    _, request_id = await submitted(people)
    assert problem(await ask(people, request_id, user), status)["code"] in codes
    assert await rows(furnished, "comments") == []


async def test_an_approver_who_has_answered_asks_no_more(people):
    _, request_id = await submitted(people)
    await act(people, "fin", request_id, "decide", {"answer": "approved"})
    assert problem(await ask(people, request_id), 409)["code"] == "APPROVAL_DECIDED"


async def test_only_a_person_who_had_a_part_is_asked(people):
    _, request_id = await submitted(people)
    found = problem(await ask(people, request_id, to="bob"), 422)
    assert (found["code"], found["hint"]) == ("NOT_AN_ORIGINATOR", "ask one of alice")


async def test_a_member_who_has_left_is_not_asked(people, furnished):
    _, request_id = await submitted(people)
    async with furnished.transaction(ORG) as connection:
        await connection.execute("UPDATE assent.members SET active = false WHERE user_id = 'alice'")
    assert problem(await ask(people, request_id), 422)["code"] == "INACTIVE"


async def test_only_the_one_who_is_asked_answers_and_only_once(people):
    _, _, question_id = await questioned(people)
    assert problem(await answer(people, question_id, "fin"), 403)["code"] == "POLICY_DENIED"
    assert (await answer(people, question_id)).status_code == 200
    assert problem(await answer(people, question_id, text="No."), 409)["code"] == "QUESTION_CLOSED"


async def test_a_decision_closes_what_is_still_asked(people):
    _, request_id, question_id = await questioned(people)
    await act(people, "fin", request_id, "decide", {"answer": "rejected", "reason": "no answer"})
    assert await inbox(people, "alice") == []
    assert problem(await answer(people, question_id), 409)["code"] == "QUESTION_CLOSED"
    async with people("alice") as client:
        found = (await client.get(f"/api/questions/{question_id}")).json()
    assert (found["status"], found["answer"]) == ("closed", None)


async def test_an_edit_that_voids_the_request_closes_its_questions(people):
    place, _, question_id = await questioned(people)
    async with people("alice") as client:
        body = {"data": {"grand_total": 130000}}
        assert (await client.patch(place, json=body, headers={"If-Match": "*"})).status_code == 200
        assert (await client.get(f"/api/questions/{question_id}")).json()["status"] == "closed"


async def test_of_a_question_and_a_decision_at_once_none_leaves_an_open_question(people, furnished):
    """Whoever is first: the question is refused, or the decision closes it."""
    for _ in range(5):
        _, request_id = await submitted(people)
        await asyncio.gather(
            ask(people, request_id),
            act(people, "fin", request_id, "decide", {"answer": "rejected"}),
        )
    found = await rows(furnished, "comments")
    assert [row for row in found if row["closed_at"] is None] == []


async def test_a_flow_without_an_entity_has_questions_too(people):
    _, request_id = await asked(people)
    question = (await ask(people, request_id, "bob")).json()
    assert (question["asks"], question["entity_id"]) == ("alice", None)
    (item,) = await inbox(people, "alice", kind="question")
    assert item["workflow"] == "orders.approval"
    assert (await answer(people, question["id"])).json()["status"] == "answered"


async def test_a_question_is_for_those_who_may_read_its_request(people):
    _, request_id = await asked(people)
    question_id = (await ask(people, request_id, "bob")).json()["id"]
    for user, status in (("alice", 200), ("bob", 200), ("carol", 200), ("olga", 200), ("max", 403)):
        async with people(user) as client:
            assert (await client.get(f"/api/questions/{question_id}")).status_code == status, user
            assert (await client.get(f"/api/approvals/{request_id}/questions")).status_code == status, user
    async with people("bob", "globex") as client:
        assert (await client.get(f"/api/questions/{question_id}")).status_code == 404


async def test_a_request_takes_so_many_open_questions_and_no_more(people):
    _, request_id = await submitted(people)
    for _ in range(20):
        assert (await ask(people, request_id)).status_code == 201
    assert problem(await ask(people, request_id), 409)["code"] == "TOO_MANY_QUESTIONS"
    first = (await inbox(people, "alice"))[0]["request_id"]
    await answer(people, first)
    assert (await ask(people, request_id)).status_code == 201


async def test_questions_come_page_by_page_oldest_first(people, clock):
    _, request_id = await submitted(people)
    for number in range(5):
        await ask(people, request_id, text=f"question {number}")
    found, cursor = [], None
    async with people("fin") as client:
        while True:
            query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await client.get(f"/api/approvals/{request_id}/questions", params=query)).json()
            found += [item["text"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
    assert found == [f"question {number}" for number in range(5)]


async def test_a_comment_notifies_the_members_whom_it_mentions(people, furnished):
    async with furnished.transaction(ORG) as connection:
        await connection.execute("UPDATE assent.members SET email = user_id || '@example.com'")
    place, _ = await submitted(people)
    text = "@fin, @bob: is it right? @nobody, @alice and mail@carol do not get this."
    added = await comment(people, place, text)
    assert added.status_code == 201
    assert added.json()["mentions"] == ["fin", "bob", "alice"]
    mails = [row["payload"] for row in await rows(furnished, "effects")]
    assert sorted(mail["user"] for mail in mails) == ["bob", "fin"]
    assert {mail["mail"]["kind"] for mail in mails} == {"mentioned"}
    async with people("max") as client:
        (shown,) = (await client.get(f"{place}/comments")).json()["items"]
    assert (shown["text"], shown["author_id"], shown["entity_version"], shown["status"]) == (
        text,
        "alice",
        2,
        None,
    )
    (entry,) = await noted(furnished, "comment")
    assert (entry["action"], entry["actor_id"], text in str(entry["details"])) == (
        "comment.add",
        "alice",
        False,
    )


async def test_a_comment_changes_no_version_and_voids_no_approval(people):
    place, request_id = await submitted(people)
    await comment(people, place, "fine")
    async with people("fin") as client:
        assert (await client.get(place)).json()["version"] == 2
        assert (await client.get(f"/api/approvals/{request_id}")).json()["status"] == "pending"


async def test_who_may_not_read_an_entity_neither_reads_nor_writes_nor_gets_comments(people, furnished):
    async with people("max") as client:
        made = await client.post("/api/entities/dossier", json={"data": {"title": "Secret"}})
    place = made.headers["location"]
    refused = problem(await comment(people, place, "@alice look", "max"), 403)
    assert (refused["code"], refused["problems"][0]["path"]) == ("POLICY_DENIED", ["text"])
    assert (await comment(people, place, "mine", "max")).status_code == 201
    assert problem(await comment(people, place, "hello"), 403)["code"] == "POLICY_DENIED"
    async with people("alice") as client:
        assert problem(await client.get(f"{place}/comments"), 403)["code"] == "POLICY_DENIED"
    assert len(await rows(furnished, "comments")) == 1
    assert await rows(furnished, "effects") == []


async def test_an_entity_of_another_partition_takes_no_comment(people):
    async with people("alice", partition_id="north") as client:
        made = await client.post("/api/entities/expense", json={"data": {"title": "Taxi", "total": 1}})
        place = made.headers["location"]
        assert (await client.post(f"{place}/comments", json={"text": "fine"})).status_code == 201
    async with people("alice", partition_id="south") as client:
        assert problem(await client.post(f"{place}/comments", json={"text": "hm"}), 404)
        assert problem(await client.get(f"{place}/comments"), 404)


@pytest.mark.parametrize("text", ["", " ", "\u200b"])
async def test_a_comment_has_something_to_see_in_it(people, text):
    place, request_id = await submitted(people)
    assert problem(await comment(people, place, text), 422)["code"] == "BLANK"
    assert problem(await ask(people, request_id, text=text), 422)["code"] == "BLANK"


async def test_comments_of_what_is_not_there_are_not_found(people):
    async with people("alice") as client:
        assert problem(await client.get(f"/api/entities/invoice/{uuid4()}/comments"), 404)
        assert problem(await client.get(f"/api/questions/{uuid4()}"), 404)
        assert problem(await client.post(f"/api/questions/{uuid4()}/answer", json={"text": "x"}), 404)
        assert problem(await client.post(f"/api/approvals/{uuid4()}/questions", json={"text": "x"}), 404)


async def test_a_question_is_repeated_under_its_key_and_asked_once(people, furnished):
    _, request_id = await submitted(people)
    async with people("fin") as client:
        path, headers = f"/api/approvals/{request_id}/questions", {"Idempotency-Key": "q-1"}
        first = await client.post(path, json={"text": TEXT}, headers=headers)
        second = await client.post(path, json={"text": TEXT}, headers=headers)
    assert first.json() == second.json()
    assert len(await rows(furnished, "comments")) == 1
