"""Definitions through HTTP: written, checked, published, compared, drawn, out of use and back."""

import json
from copy import deepcopy
from uuid import uuid4

import pytest

from tests.authored import DESIGN, data_of
from tests.http.application import LEAVE, app
from tests.http.callers import problem
from tests.world import rows

PATCH = data_of(DESIGN / "invoice.patch.yaml")


def leave(**changes):
    return {**deepcopy(LEAVE), **changes}


async def ask(people, user, method, path, body=None, *, tag="*", **more):  # noqa: PLR0913
    is_meant = method == "PUT" or (path.startswith("/api/drafts") and path.endswith("/publish"))
    headers = {"If-Match": tag} if is_meant and tag else {}
    async with people(user, **more) as client:
        return await client.request(method, path, json=body, headers=headers)


async def draft(people, source=None, user="adam"):
    return await ask(people, user, "POST", "/api/drafts", {"source": leave() if source is None else source})


async def published(people, source=None):
    made = (await draft(people, source)).json()
    done = await ask(people, "adam", "POST", f"/api/drafts/{made['id']}/publish")
    assert done.status_code == 200, done.text
    return done.json()["definition"]


async def test_a_draft_is_kept_wrong_as_it_is_and_says_what_is_wrong(people):
    made = await draft(people, leave(start="nowhere"))
    assert (made.status_code, made.headers["location"]) == (201, f"/api/drafts/{made.json()['id']}")
    assert (made.json()["status"], made.json()["source"]["start"]) == ("draft", "nowhere")
    assert ["start"] in [found["path"] for found in made.json()["problems"]]
    refused = problem(await ask(people, "adam", "POST", f"/api/drafts/{made.json()['id']}/publish"), 422)
    assert refused["code"] == "INVALID_DECLARATION"
    assert refused["problems"]
    put = await ask(people, "adam", "PUT", f"/api/drafts/{made.json()['id']}", {"source": leave()})
    assert (put.json()["id"], put.json()["problems"]) == (made.json()["id"], [])


async def test_a_draft_that_somebody_else_has_written_anew_is_not_overwritten(people, furnished):
    made = await draft(people)
    where, read = f"/api/drafts/{made.json()['id']}", made.headers["etag"]
    assert (await ask(people, "adam", "GET", where)).headers["etag"] == read
    first = await ask(people, "adam", "PUT", where, {"source": leave(name="mine")}, tag=read)
    assert first.status_code == 200
    second = await ask(people, "adam", "PUT", where, {"source": leave(name="theirs")}, tag=read)
    assert problem(second, 412)["code"] == "VERSION_CONFLICT"
    assert (await ask(people, "adam", "GET", where)).json()["source"]["name"] == "mine"
    again = await ask(
        people, "adam", "PUT", where, {"source": leave(name="theirs")}, tag=first.headers["etag"]
    )
    assert again.status_code == 200
    unsaid = await ask(people, "adam", "PUT", where, {"source": leave()}, tag=None)
    assert problem(unsaid, 428)["code"] == "IF_MATCH_REQUIRED"
    assert problem(await ask(people, "adam", "PUT", where, {"source": leave()}, tag="7"), 422)


def texts_of(*declared):
    return {"sources": [{"name": f"{n}.yaml", "text": json.dumps(one)} for n, one in enumerate(declared)]}


async def publish_together(people, *declared, user="adam"):
    return await ask(people, user, "POST", "/api/definitions/publish", texts_of(*declared))


async def test_several_are_published_together_or_none(people, furnished):
    before = await rows(furnished, "workflow_definitions")
    refused = await publish_together(people, leave(flow="a"), leave(flow="b", start="nowhere"))
    found = problem(refused, 422)["problems"]
    assert [(one["path"], one["message"][:6]) for one in found] == [(["start"], "1.yaml")]
    assert await rows(furnished, "workflow_definitions") == before
    done = await publish_together(people, leave(flow="a"), leave(flow="b"), PATCH)
    assert [one["definition"]["key"] for one in done.json()["publications"]] == ["invoice", "a", "b"]
    for flow in ("a", "b"):
        assert (await ask(people, "alice", "POST", f"/api/flows/{flow}/start", {})).status_code == 201


async def test_a_contract_is_not_one_orgs_to_publish(people):
    contract = data_of(DESIGN / "invoice.contract.yaml")
    assert problem(await publish_together(people, contract), 403)["code"] == "POLICY_DENIED"
    refused = problem(await publish_together(people, leave(), user="alice"), 403)
    assert refused["detail"].endswith("it takes definitions:publish")


async def test_a_draft_that_is_published_starts_and_is_a_draft_no_more(people):
    made = (await draft(people)).json()
    done = (await ask(people, "adam", "POST", f"/api/drafts/{made['id']}/publish")).json()
    assert (done["changed"], done["definition"]["status"], done["definition"]["is_everybodys"]) == (
        True,
        "published",
        False,
    )
    assert (await ask(people, "alice", "POST", "/api/flows/leave.request/start", {})).status_code == 201
    assert problem(await ask(people, "adam", "GET", f"/api/drafts/{made['id']}"), 404)["code"] == "NOT_FOUND"
    assert problem(await ask(people, "adam", "POST", f"/api/drafts/{made['id']}/publish"), 404)


async def test_what_is_published_is_what_was_reviewed(people, furnished):
    made = await draft(people)
    path, reviewed = f"/api/drafts/{made.json()['id']}", made.headers["etag"]
    swapped = leave(steps=[{**LEAVE["steps"][0], "assignee": {"role": "clerk"}}, LEAVE["steps"][1]])
    changed = await ask(people, "adam", "PUT", path, {"source": swapped}, tag=reviewed)
    assert changed.status_code == 200
    stale = await ask(people, "adam", "POST", f"{path}/publish", tag=reviewed)
    assert problem(stale, 412)["code"] == "VERSION_CONFLICT"
    unsaid = await ask(people, "adam", "POST", f"{path}/publish", tag=None)
    assert problem(unsaid, 428)["code"] == "IF_MATCH_REQUIRED"
    assert (await ask(people, "adam", "GET", path)).json()["source"] == swapped
    done = await ask(people, "adam", "POST", f"{path}/publish", tag=changed.headers["etag"])
    assert done.json()["definition"]["status"] == "published"


async def test_a_patch_says_what_starts_for_its_entity(people):
    before = (await ask(people, "alice", "GET", "/api/definitions?kind=effective&own=true")).json()["items"]
    patch = deepcopy(PATCH)
    patch["slots"]["slot:submitted_to_approved"]["nodes"][2]["due"] = "48h"
    made = (await draft(people, patch)).json()
    done = (await ask(people, "adam", "POST", f"/api/drafts/{made['id']}/publish")).json()
    assert done["effective"]["id"] not in [found["id"] for found in before]
    compared = await ask(
        people, "adam", "GET", f"/api/definitions/{before[0]['id']}/diff/{done['effective']['id']}"
    )
    (change,) = compared.json()["groups"]["slot:submitted_to_approved"]
    assert (change["sort"], change["what"]) == ("changed", "node")
    assert "due" in compared.json()["text"]


async def test_a_draft_keeps_its_name_and_there_is_one_of_each(people, furnished):
    made = (await draft(people)).json()
    assert problem(await draft(people, leave(start="x")), 409)["code"] == "ALREADY_EXISTS"
    other = await ask(people, "adam", "PUT", f"/api/drafts/{made['id']}", {"source": leave(flow="other")})
    assert problem(other, 422)["code"] == "BAD_VALUE"
    assert problem(await ask(people, "adam", "PUT", f"/api/drafts/{uuid4()}", {"source": leave()}), 404)
    (kept,) = [row for row in await rows(furnished, "workflow_definitions") if row["status"] == "draft"]
    assert kept["source_json"] == LEAVE
    gone = await ask(people, "adam", "DELETE", f"/api/drafts/{made['id']}")
    assert gone.json()["source"] == LEAVE
    assert problem(await ask(people, "adam", "DELETE", f"/api/drafts/{made['id']}"), 404)
    assert (await draft(people)).status_code == 201


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({}, ["source"]),
        ({"flow": 7}, ["source"]),
        ({"flow": ""}, ["source"]),
        ({"flow": "x" * 4_000}, ["source"]),
        ({"flow": "a\x00b"}, ["source", "flow"]),
        ({"patch": "p"}, ["source", "base", "entity_type"]),
        ({"patch": "p", "base": {"entity_type": "y" * 4_000}}, ["source", "base", "entity_type"]),
    ],
)
async def test_a_draft_that_does_not_say_what_it_is_is_told(people, furnished, source, path):
    assert problem(await draft(people, source), 422)["problems"][0]["path"] == path
    assert [row for row in await rows(furnished, "workflow_definitions") if row["status"] == "draft"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/drafts", {"source": LEAVE}),
        ("PUT", "/api/drafts/{draft}", {"source": LEAVE}),
        ("DELETE", "/api/drafts/{draft}", None),
        ("POST", "/api/drafts/{draft}/publish", None),
        ("POST", "/api/definitions/{published}/archive", None),
        ("POST", "/api/definitions/{published}/rollback", None),
    ],
)
async def test_without_the_capability_nothing_is_written(people, furnished, method, path, body):
    ids = {
        "published": (await published(people))["id"],
        "draft": (await draft(people, leave(flow="other"))).json()["id"],
    }
    before = await rows(furnished, "workflow_definitions")
    assert (
        problem(await ask(people, "alice", method, path.format(**ids), body), 403)["code"] == "POLICY_DENIED"
    )
    assert await rows(furnished, "workflow_definitions") == before


async def test_steps_that_run_as_somebody_else_need_more_than_publishing(people, furnished):
    steps = [
        {"id": "ask", "type": "system", "operation": {"sdk": "orders.confirm"}, "run_as": "system"},
        {"id": "done", "type": "terminal"},
    ]
    arrows = [
        {"from": "ask", "event": "completed", "to": "done"},
        {"from": "ask", "event": "error", "to": "done"},
    ]
    made = (await draft(people, leave(steps=steps, transitions=arrows))).json()
    assert made["problems"] == []
    refused = await ask(people, "adam", "POST", f"/api/drafts/{made['id']}/publish")
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert (await ask(people, "adam", "GET", f"/api/drafts/{made['id']}")).status_code == 200


def calling(operation, flow="pay", **step):
    steps = [
        {"id": "call", "type": "system", "operation": {"sdk": operation}, **step},
        {"id": "done", "type": "terminal"},
    ]
    arrows = [
        {"from": "call", "event": "completed", "to": "done"},
        {"from": "call", "event": "error", "to": "done"},
    ]
    return leave(flow=flow, start="call", steps=steps, transitions=arrows)


async def give(furnished, capability, role="admin"):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities VALUES ('acme', $1, $2)", role, capability
        )


async def test_every_door_asks_for_the_rights_that_steps_use(people, furnished):
    paying, shipping = calling("payroll.pay"), calling("orders.ship", flow="ship")
    before = await rows(furnished, "workflow_definitions")
    refused = problem(await publish_together(people, paying, shipping, leave()), 403)
    assert refused["code"] == "POLICY_DENIED"
    assert [found["message"] for found in refused["problems"]] == [
        "`call` calls the operation payroll.pay, which takes operation:payroll.pay:use",
        "`call` calls the operation orders.ship, which takes operation:orders.ship:use",
    ]
    assert await rows(furnished, "workflow_definitions") == before
    made = (await draft(people, paying)).json()
    where = f"/api/drafts/{made['id']}"
    assert problem(await ask(people, "adam", "POST", f"{where}/publish"), 403)["code"] == "POLICY_DENIED"
    assert (await ask(people, "adam", "GET", where)).status_code == 200

    await give(furnished, "operation:payroll.pay:use")
    await give(furnished, "operation:orders.ship:use")
    assert (await ask(people, "adam", "POST", f"{where}/publish")).status_code == 200
    assert (await publish_together(people, paying, shipping, leave())).status_code == 200


async def test_application_names_what_its_operations_take(people, furnished, monkeypatch):
    monkeypatch.setitem(app.capabilities, "operation:orders.confirm", "orders:confirm")
    await give(furnished, "operation:*")
    refused = problem(await publish_together(people, calling("orders.confirm")), 403)
    assert "orders:confirm" in refused["detail"]
    await give(furnished, "orders:confirm")
    assert (await publish_together(people, calling("orders.confirm"))).status_code == 200


async def test_patch_that_waives_approval_takes_its_own_capability(people, furnished):
    waiving = deepcopy(PATCH) | {"slots": {}}
    waiving["slots"]["slot:submitted_to_approved"] = {
        "nodes": [{"id": "wave", "type": "script", "set": {"ok": True}, "waives_approval": True}],
        "edges": [{"from": "in", "to": "wave"}, {"from": "wave", "to": "out"}],
    }
    await give(furnished, "definitions:publish", role="manager")
    refused = problem(await publish_together(people, waiving, user="max"), 403)
    assert "workflow:publish:waive_approval" in refused["detail"]
    await give(furnished, "workflow:publish:waive_approval", role="manager")
    assert (await publish_together(people, waiving, user="max")).status_code == 200


async def test_four_eyes_hold_at_every_door(people, furnished):
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.orgs SET settings = settings || '{\"publish\": \"four_eyes\"}' WHERE org_id = 'acme'"
        )
    await give(furnished, "definitions:*", role="manager")
    assert problem(await publish_together(people, leave()), 403)["code"] == "FOUR_EYES_REQUIRED"
    made = (await draft(people)).json()
    assert made["edited_by"] == ["adam"]
    where = f"/api/drafts/{made['id']}"
    own = problem(await ask(people, "adam", "POST", f"{where}/publish"), 403)
    assert own["code"] == "FOUR_EYES_REQUIRED"
    changed = await ask(people, "max", "PUT", where, {"source": leave(name="Leave")})
    assert changed.json()["edited_by"] == ["adam", "max"]
    for editor in ("adam", "max"):
        refused = problem(await ask(people, editor, "POST", f"{where}/publish"), 403)
        assert refused["code"] == "FOUR_EYES_REQUIRED"
    await give(furnished, "definitions:publish", role="finance_manager")
    assert (await ask(people, "fin", "POST", f"{where}/publish")).status_code == 200


async def test_versions_are_archived_and_brought_back(people):
    first = await published(people)
    second = await published(people, leave(version=2, name="Leave"))
    found = (await ask(people, "alice", "GET", "/api/definitions?kind=flow&key=leave.request")).json()[
        "items"
    ]
    assert [(one["id"], one["status"]) for one in found] == [
        (second["id"], "published"),
        (first["id"], "archived"),
    ]
    back = (await ask(people, "adam", "POST", f"/api/definitions/{first['id']}/rollback")).json()
    assert (back["definition"]["id"], back["definition"]["status"]) == (first["id"], "published")
    gone = (await ask(people, "adam", "POST", f"/api/definitions/{first['id']}/archive")).json()
    assert gone["status"] == "archived"
    assert problem(await ask(people, "alice", "POST", "/api/flows/leave.request/start", {}), 404)


async def test_what_is_everybodys_is_seen_by_all_and_moved_by_none(people):
    (found,) = (await ask(people, "alice", "GET", "/api/definitions?kind=envelope")).json()["items"]
    assert found["is_everybodys"]
    shown = (await ask(people, "adam", "GET", f"/api/definitions/{found['id']}")).json()
    assert shown["source"]["contract"] == "invoice"
    for verb in ("archive", "rollback"):
        assert problem(await ask(people, "adam", "POST", f"/api/definitions/{found['id']}/{verb}"), 404)


async def test_what_follows_from_patches_is_not_moved_by_itself(people):
    (found,) = (await ask(people, "alice", "GET", "/api/definitions?kind=effective&own=true")).json()["items"]
    refused = await ask(people, "adam", "POST", f"/api/definitions/{found['id']}/archive")
    assert problem(refused, 409)["code"] == "DEFINITION_DERIVED"


async def test_versions_come_in_pages(people):
    every = (await ask(people, "alice", "GET", "/api/definitions")).json()["items"]
    seen, cursor = [], ""
    while cursor is not None:
        page = (await ask(people, "alice", "GET", f"/api/definitions?limit=2{cursor}")).json()
        seen += page["items"]
        cursor = page["next"] and f"&cursor={page['next']}"
    assert seen == every
    assert len(every) == len({found["id"] for found in every}) > 4


async def test_a_definition_is_drawn(people):
    found = await published(people)
    drawn = await ask(people, "adam", "GET", f"/api/definitions/{found['id']}/diagram")
    assert (drawn.status_code, drawn.headers["content-type"]) == (200, "text/vnd.mermaid; charset=utf-8")
    assert drawn.text.startswith("flowchart")
    (patch,) = (await ask(people, "alice", "GET", "/api/definitions?kind=org_patch")).json()["items"]
    refused = await ask(people, "adam", "GET", f"/api/definitions/{patch['id']}/diagram")
    assert problem(refused, 409)["code"] == "WORKFLOW_NOT_COMPILED"


async def check(people, *texts):
    sources = [{"name": f"{number}.yaml", "text": text} for number, text in enumerate(texts)]
    answer = await ask(people, "alice", "POST", "/api/definitions/check", {"sources": sources})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_problem_is_found_at_its_line_and_nothing_is_kept(people, furnished):
    before = await rows(furnished, "workflow_definitions")
    flow = (DESIGN / "orders.flow.yaml").read_text()
    right = await check(people, flow)
    assert (right["problems"], right["workflows"][0]["key"]) == ([], "orders.approval")
    assert right["workflows"][0]["diagram"].startswith("flowchart")
    broken = await check(people, flow.replace("to: approved}", "to: nowhere}"), "flow: [")
    placed = {(found["source"], found["line"], found["column"]) for found in broken["problems"]}
    line = 1 + flow[: flow.index("to: approved}")].count("\n")
    assert ("0.yaml", line) in {(source, at) for source, at, _ in placed}
    assert {source for source, _, _ in placed} == {"0.yaml", "1.yaml"}
    assert broken["workflows"] == []
    assert await rows(furnished, "workflow_definitions") == before


async def test_a_patch_is_checked_beside_the_contract_that_is_published(people):
    patch = (DESIGN / "invoice.patch.yaml").read_text()
    right = await check(people, patch)
    assert (right["problems"], [found["key"] for found in right["workflows"]]) == ([], ["invoice"])
    wrong = await check(people, patch.replace("entity.grand_total > 1000000", "entity.size > 1000000"))
    (found,) = wrong["problems"]
    assert (found["code"], found["source"], found["line"]) == ("UNKNOWN_VARIABLE", "0.yaml", 16)
    unknown = await check(people, patch.replace("entity_type: invoice", 'entity_type: "a\\0b"'))
    assert unknown["problems"]


async def test_templates_are_listed_and_read_with_their_files(people):
    found = (await ask(people, "alice", "GET", "/api/templates")).json()["items"]
    assert "invoice_approval" in [template["name"] for template in found]
    assert all(template["summary"] for template in found)
    shown = (await ask(people, "alice", "GET", "/api/templates/invoice_approval")).json()
    assert sorted(shown["files"]) == ["README.md", "contract.yaml", "patch.yaml"]
    assert (await check(people, shown["files"]["contract.yaml"], shown["files"]["patch.yaml"]))[
        "problems"
    ] == []
    for name in ("unicorn", "schema", "..", "%2e%2e%2fcli"):
        assert (await ask(people, "alice", "GET", f"/api/templates/{name}")).status_code == 404
