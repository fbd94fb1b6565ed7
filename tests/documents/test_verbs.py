"""Verbs: each does what the command of the same work does, with the rights of who calls it."""

from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest

from assent.app import App
from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.language.built_in_verbs import BUILT_IN
from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid
from assent.runtime.runtime import Runtime
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from tests.documents.conftest import LEAD, PORTAL, RON, VERA, Compliance
from tests.processes.commands import ROOT
from tests.workers import run_until_done
from tests.world import ORG, drain, grant, publish_steps, rows

DOCUMENTED = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")


async def run(compliance: Compliance, actor: Actor, call: str, **variables: Any) -> Any:
    return await compliance.by(actor).verbs.run(call, variables)


async def refused(compliance: Compliance, actor: Actor, call: str, **variables: Any) -> Any:
    with pytest.raises(Refused) as caught:
        await run(compliance, actor, call, **variables)
    return caught.value.rejection


async def test_the_whole_story_in_verbs(compliance: Compliance) -> None:
    """Ask, hand in, report, reject, ask again, verify: what the guide does over HTTP."""
    asked = await run(
        compliance, LEAD, "(document.solicit-set :subject-entity-id c-9 :doc-types [passport bill])"
    )
    made = await run(
        compliance,
        PORTAL,
        "(document.create :document-type passport :subject-entity-id $who :structured-data {:number 7})",
        who="c-9",
    )
    report = (
        "(workflow.complete-task :task-id $task :idempotency-key e1 :cargo-refs [$cargo] :doc-type passport)"
    )
    given = {"task": asked["request_id"], "cargo": made["cargo"]}
    assert await run(compliance, PORTAL, report, **given) == {"outcome": "accepted"}
    assert await run(compliance, PORTAL, report, **given) == {"outcome": "repeated"}
    await compliance.work()
    listed = await run(compliance, LEAD, "(requirement.list :subject-entity-id c-9 :status in_qa)")
    assert [one["doc_type"] for one in listed] == ["passport"]
    rejected = await run(
        compliance, VERA, "(document.reject :document-id $d :code UNREADABLE)", d=made["document_id"]
    )
    assert (rejected["status"], rejected["rejection_code"]) == ("rejected", "UNREADABLE")
    status = "(requirement.status :requirement-id $r)"
    found = await run(compliance, LEAD, status, r=listed[0]["id"])
    assert (found["status"], found["rejection_code"]) == ("rejected", "UNREADABLE")
    await run(compliance, LEAD, "(document.solicit :subject-entity-id c-9 :doc-type passport)")
    second = await run(
        compliance,
        PORTAL,
        "(document.create :document-type passport :subject-entity-id c-9 :requirement-id $r :blob-ref 'external://v/1')",
        r=listed[0]["id"],
    )
    verified = await run(
        compliance, VERA, "(document.verify :document-id $d :valid-to '2099-01-31')", d=second["document_id"]
    )
    assert verified["status"] == "verified"
    assert (await run(compliance, LEAD, status, r=listed[0]["id"]))["valid_to"] == "2099-01-31"
    newest = await run(compliance, VERA, "(document.find :subject-entity-id c-9 :document-type passport)")
    assert newest["id"] == second["document_id"]
    assert len(await run(compliance, VERA, "(document.list :subject-entity-id c-9)")) == 2
    (version,) = await run(compliance, VERA, "(document.get-versions :document-id $d)", d=newest["id"])
    assert (version["verified_by"], "maker_id" in version) == ("vera", False)
    visa = await run(compliance, LEAD, "(requirement.create :subject-entity-id c-9 :doc-type visa)")
    waive = "(requirement.waive :requirement-id $r :reason 'seen in person')"
    assert (await run(compliance, LEAD, waive, r=visa["id"]))["status"] == "waived"
    reset = "(requirement.reset :requirement-id $r :reason mistaken)"
    assert (await run(compliance, LEAD, reset, r=visa["id"]))["status"] == "missing"
    entries = [row for row in await rows(compliance.database, "audit_log") if row["action"] == "verb.run"]
    assert {row["actor_id"] for row in entries} == {"lead", "portal", "vera"}


EXAMPLES = {
    "document.create": "(document.create :document-type passport :subject-entity-id c-1)",
    "document.solicit": "(document.solicit :subject-entity-id c-1 :doc-type passport)",
    "document.solicit-set": "(document.solicit-set :subject-entity-id c-1 :doc-types [passport])",
    "document.verify": "(document.verify :document-id $id :version-id $id)",
    "document.reject": "(document.reject :document-id $id :version-id $id :code GLARE)",
    "document.list": "(document.list)",
    "document.find": "(document.find :subject-entity-id c-1 :document-type passport)",
    "document.get-versions": "(document.get-versions :document-id $id)",
    "requirement.create": "(requirement.create :subject-entity-id c-1 :doc-type passport)",
    "requirement.list": "(requirement.list)",
    "requirement.status": "(requirement.status :requirement-id $id)",
    "requirement.waive": "(requirement.waive :requirement-id $id :reason known)",
    "requirement.reset": "(requirement.reset :requirement-id $id :reason known)",
    "workflow.complete-task": "(workflow.complete-task :task-id $id :idempotency-key k)",
}


@pytest.mark.parametrize("name", sorted(BUILT_IN.verbs))
async def test_each_verb_takes_its_capability(compliance: Compliance, name: str) -> None:
    spec, given = BUILT_IN.verbs[name], {"id": str(uuid4())}
    denied = await refused(
        compliance, Actor("eve", capabilities={"documents:other"}), EXAMPLES[name], **given
    )
    assert denied.code == "POLICY_DENIED"
    holder = Actor("eve", capabilities={spec.capability})
    with suppress(Refused):
        await run(compliance, holder, EXAMPLES[name], **given)
        return
    assert (await refused(compliance, holder, EXAMPLES[name], **given)).code in ("NOT_FOUND", "MISSING_KEY")


@pytest.mark.parametrize(
    ("call", "code", "hint"),
    [
        ("(document.creat :document-type a)", "UNKNOWN_VERB", "document.create"),
        ("(document.create :document-typ a :subject-entity-id b)", "UNKNOWN_ARGUMENT", "document-type"),
        ("(document.create :document-type a)", "MISSING_ARGUMENT", None),
        ("(document.get-versions :document-id passport)", "WRONG_TYPE", None),
        ("(requirement.list :status lost)", "WRONG_TYPE", None),
        ("(document.list", "VERB_SYNTAX", None),
        ("(document.get-versions :document-id $nothing)", "MISSING_ARGUMENT", None),
    ],
)
async def test_a_call_that_cannot_be_made_says_why(
    compliance: Compliance, call: str, code: str, hint: str | None
) -> None:
    found = await refused(compliance, Actor("root", capabilities={"*"}), call)
    assert code in [found.code, *(one.code for one in found.problems)], found
    assert hint is None or hint in " ".join(str(one.hint) for one in found.problems)


async def test_a_verb_that_fails_half_way_leaves_nothing(compliance: Compliance) -> None:
    """A document is created with its version, or not at all."""
    call = "(document.create :document-type passport :subject-entity-id c-1 :structured-data 7)"
    assert (await refused(compliance, PORTAL, call)).code == "WRONG_TYPE"
    assert await rows(compliance.database, "documents") == []


async def test_another_org_and_another_partition_find_nothing(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    requirement = await compliance.by(LEAD).requirements.create("c-1", "visa")
    root = Actor("root", capabilities={"*"})
    for org in (compliance.runtime.org("globex", root), compliance.runtime.org(ORG, root, "north")):
        for call in (
            "(document.get-versions :document-id $d)",
            "(document.verify :document-id $d)",
            "(document.reject :document-id $d :code GLARE)",
            "(requirement.waive :requirement-id $r :reason known)",
            "(requirement.status :requirement-id $r)",
        ):
            with pytest.raises(Refused) as caught:
                await org.verbs.run(call, {"d": str(version.document_id), "r": str(requirement.id)})
            assert caught.value.rejection.code == "NOT_FOUND"
        assert await org.verbs.run("(document.list)") == []


async def test_results_that_a_source_signs_come_by_no_verb(compliance: Compliance) -> None:
    await compliance.begin()
    request = await compliance.open_request()
    async with compliance.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.event_sources (org_id, name, key_prefix, secret, created_by)"
            " VALUES ('acme', 'portal', 'result:', 'whsec_' || repeat('A', 40), 'lead')"
        )
    call = "(workflow.complete-task :task-id $task :idempotency-key k :status failed)"
    assert (await refused(compliance, PORTAL, call, task=str(request["id"]))).code == "SIGNATURE_MISSING"


WAIVE = {
    "id": "waive",
    "type": "system",
    "operation": {"verb": "(requirement.waive :requirement-id $visa :reason 'known for years')"},
    "output": {"waived": "result.status"},
}


async def start_with(compliance: Compliance, step: dict[str, Any], **variables: Any) -> dict[str, Any]:
    steps = [step, {"id": "done", "type": "terminal"}, {"id": "denied", "type": "terminal"}]
    ways = [
        {"from": step["id"], "event": "completed", "to": "done"},
        {"from": step["id"], "event": "error", "to": "denied"},
    ]
    await publish_steps(compliance.database, "verbs", steps, ways)
    await compliance.by(RON).instances.start("verbs", variables)
    return await compliance.instance()


@pytest.mark.parametrize("held", [True, False])
async def test_a_step_acts_with_the_rights_of_its_person(compliance: Compliance, held: bool) -> None:
    visa = await compliance.by(LEAD).requirements.create("c-1", "visa")
    capabilities = {"requirements:waive"} if held else set()
    ron = Actor("ron", roles={"relationship_manager"}, capabilities=capabilities)
    steps = [WAIVE, {"id": "done", "type": "terminal"}]
    ways = [{"from": "waive", "event": "completed", "to": "done"}]
    await publish_steps(compliance.database, "verbs", steps, ways)
    if held:
        await compliance.by(ron).instances.start("verbs", {"visa": str(visa.id)})
        found = await compliance.instance()
        assert (found["status"], found["context_json"]["waived"]) == ("completed", "waived")
        assert (await compliance.by(LEAD).requirements.get(visa.id)).requirement.waived_by == "ron"
    else:
        with pytest.raises(Refused) as caught:
            await compliance.by(ron).instances.start("verbs", {"visa": str(visa.id)})
        assert caught.value.rejection.code == "POLICY_DENIED"
        assert (await compliance.by(LEAD).requirements.get(visa.id)).requirement.status == "missing"


async def test_a_denied_verb_takes_the_error_edge(compliance: Compliance) -> None:
    visa = await compliance.by(LEAD).requirements.create("c-1", "visa")
    found = await start_with(compliance, WAIVE, visa=str(visa.id))
    assert (found["status"], found["context_json"]["_last_error"]["code"]) == ("completed", "POLICY_DENIED")
    assert (await compliance.by(LEAD).requirements.get(visa.id)).requirement.status == "missing"


async def test_rights_are_those_of_the_moment_in_which_the_step_runs(compliance: Compliance) -> None:
    """D29: a person whose right was taken while a timer ran waives nothing any more."""
    visa = await compliance.by(LEAD).requirements.create("c-1", "visa")
    steps = [
        {"id": "wait", "type": "wait", "for": "2d"},
        WAIVE,
        {"id": "done", "type": "terminal"},
    ]
    ways = [
        {"from": "wait", "event": "completed", "to": "waive"},
        {"from": "waive", "event": "completed", "to": "done"},
    ]
    await publish_steps(compliance.database, "verbs", steps, ways)
    async with compliance.database.transaction(None) as connection:
        await grant(connection, {"relationship_manager": ["requirements:waive"]})
    ron = Actor("ron", roles={"relationship_manager"}, capabilities={"requirements:waive"})
    await compliance.by(ron).instances.start("verbs", {"visa": str(visa.id)})
    async with compliance.database.transaction(None) as connection:
        await connection.execute(
            "DELETE FROM assent.role_capabilities WHERE capability = 'requirements:waive'"
        )
    await compliance.wait(days=2)
    found = await compliance.instance()
    assert (found["status"], found["incident"]["code"]) == ("paused", "POLICY_DENIED")
    assert (await compliance.by(LEAD).requirements.get(visa.id)).requirement.status == "missing"


async def test_a_verb_of_a_step_moves_what_its_own_instance_requires(compliance: Compliance) -> None:
    """The requirements of the instance are read when it is loaded: a verb that moves them must be seen behind it."""
    papers = {
        "id": "papers",
        "type": "requirements",
        "requirements": [{"type": "requirement_satisfied", "doc_type": "passport"}],
    }
    steps = [
        {
            "id": "require",
            "type": "system",
            "operation": {
                "verb": "(requirement.create :subject-entity-id $entity_id :doc-type passport"
                " :instance-id $instance_id)"
            },
            "output": {"passport": "result.id"},
        },
        {**WAIVE, "operation": {"verb": "(requirement.waive :requirement-id $passport :reason known)"}},
        papers,
        {"id": "done", "type": "terminal"},
    ]
    ways = [
        {"from": "require", "event": "completed", "to": "waive"},
        {"from": "waive", "event": "completed", "to": "papers"},
        {"from": "papers", "event": "completed", "to": "done"},
    ]
    await publish_steps(compliance.database, "verbs", steps, ways)
    root = Actor("ron", capabilities={"*"})
    await compliance.by(root).instances.start("verbs", {"entity_id": "c-1"})
    await compliance.work()
    assert (await compliance.instance())["status"] == "completed"
    assert await compliance.statuses() == {"passport": "waived"}


async def app_with_verbs(compliance: Compliance) -> Runtime:
    app = App()

    @app.verb(
        "billing.open-account",
        [{"name": "client", "required": True}, {"name": "limit", "type": "integer", "default": 100}],
        description="Open an account.",
    )
    async def open_account(connection: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["limit"] > 1000:
            raise Refused(Rejection("OUT_OF_RANGE", "a limit of 1000 at most"))
        found = await connection.fetchval("SELECT assent.org_id()")
        return {"id": UUID(int=7), "limit": arguments["limit"], "org": found}

    return app.runtime(compliance.database)


async def test_an_application_adds_verbs(compliance: Compliance) -> None:
    runtime = await app_with_verbs(compliance)
    ron = Actor("ron", capabilities={"verb:billing.open-account:use"})
    found = await runtime.org(ORG, ron).verbs.run("(billing.open-account :client c-1)")
    assert found == {"id": str(UUID(int=7)), "limit": 100, "org": ORG}
    names = [one.name for one in await runtime.org(ORG, ron).verbs.list()]
    assert (names[0], len(names)) == ("billing.open-account", 1 + len(BUILT_IN.verbs))
    with pytest.raises(Refused) as caught:
        await runtime.org(ORG, PORTAL).verbs.run("(billing.open-account :client c-1)")
    assert caught.value.rejection.code == "POLICY_DENIED"


async def test_a_step_runs_a_verb_of_the_application(compliance: Compliance) -> None:
    runtime = await app_with_verbs(compliance)
    step = {
        "id": "open",
        "type": "system",
        "operation": {"verb": "(billing.open-account :client $client :limit $limit)"},
        "input": {"limit": "workflow.want * 2"},
        "output": {"account": "result.id"},
    }
    steps = [step, {"id": "done", "type": "terminal"}]
    await publish_steps(
        compliance.database, "verbs", steps, [{"from": "open", "event": "completed", "to": "done"}]
    )
    ron = Actor("ron", capabilities={"verb:billing.open-account:use"})
    await runtime.org(ORG, ron).instances.start("verbs", {"client": "c-1", "want": 3})
    assert (await compliance.instance())["context_json"]["account"] == str(UUID(int=7))


def test_verbs_of_an_application_are_checked_when_they_are_declared() -> None:
    app = App()

    @app.verb("billing.close")
    def close(connection: Any, arguments: dict[str, Any]) -> None: ...

    for name, args in (
        ("billing.close", []),
        ("document.create", []),
        ("document.burn", []),
        ("Billing.x", []),
        ("billing", []),
        ("billing.y", [{"name": "a", "type": "colour"}]),
    ):
        with pytest.raises(Invalid):
            app.verb(name, args)


FLOW = """
flow: verbs
version: 1
start: one
steps:
  - {{id: one, type: system, operation: {{verb: "{call}"}}}}
  - {{id: done, type: terminal}}
transitions:
  - {{from: one, event: completed, to: done}}
"""


@pytest.mark.parametrize(
    ("call", "code", "hint"),
    [
        ("(requirement.waive :requirement-id $r :reason known)", None, None),
        ("(requirement.waves :requirement-id $r :reason known)", "UNKNOWN_VERB", "requirement.waive"),
        ("(requirement.waive :requirement $r :reason known)", "UNKNOWN_ARGUMENT", "requirement-id"),
        ("(requirement.waive :requirement-id 7 :reason known)", "WRONG_TYPE", None),
        ("(requirement.waive :reason known)", "MISSING_ARGUMENT", None),
        ("(requirement.waive :requirement-id $r", "VERB_SYNTAX", None),
        ("(workflow.complete :task-id $r)", "UNKNOWN_VERB", None),
        ("(billing.open-account :client $c)", None, None),
    ],
)
def test_verbs_of_steps_are_checked_when_they_are_compiled(
    call: str, code: str | None, hint: str | None
) -> None:
    problems = compile_sources([read_source(FLOW.format(call=call), "verbs.yaml")]).problems
    codes = [one.code for one in problems]
    assert (code in codes) if code else not codes, problems
    assert hint is None or any(hint in (one.hint or "") for one in problems)
    assert all(one.position is not None and one.position.line == 6 for one in problems)


def test_verbs_of_the_application_are_checked_with_the_application() -> None:
    app = App()

    @app.verb("billing.open-account", [{"name": "client", "required": True}])
    def open_account(connection: Any, arguments: dict[str, Any]) -> None: ...

    def codes(call: str) -> list[tuple[str, str | None]]:
        found = app.check(read_source(FLOW.format(call=call), "verbs.yaml"))
        return [(one.code, one.hint) for one in found.problems]

    assert codes("(billing.open-account :client $c)") == []
    assert codes("(billing.open-acount :client $c)") == [
        ("UNKNOWN_VERB", "did you mean `billing.open-account`?")
    ]
    assert [code for code, _ in codes("(billing.open-account :clients $c)")] == [
        "UNKNOWN_ARGUMENT",
        "MISSING_ARGUMENT",
    ]


async def test_an_unknown_verb_of_the_application_is_an_incident(compliance: Compliance) -> None:
    step = {"id": "open", "type": "system", "operation": {"verb": "(billing.open-account :client c-1)"}}
    found = await start_with(compliance, step)
    assert found["context_json"]["_last_error"]["code"] == "UNKNOWN_VERB"


async def test_results_that_a_step_reports_are_folded_by_a_worker(compliance: Compliance) -> None:
    asked = await compliance.by(LEAD).requirements.solicit("c-9", ["passport"])
    version = await compliance.upload("passport", "c-9")
    step = {
        "id": "report",
        "type": "system",
        "operation": {
            "verb": "(workflow.complete-task :task-id $task :idempotency-key $instance_id :cargo-refs [$cargo])"
        },
    }
    steps = [step, {"id": "done", "type": "terminal"}]
    await publish_steps(
        compliance.database, "verbs", steps, [{"from": "report", "event": "completed", "to": "done"}]
    )
    root = Actor("ron", capabilities={"*"})
    given = {"task": str(asked.request_id), "cargo": f"version://assent/{version.id}"}
    await compliance.by(root).instances.start("verbs", given)
    await run_until_done(Results(WorkerContext(compliance.database, runtime=compliance.runtime)))
    await drain(compliance.runtime)
    assert (await compliance.requirements())["passport"].status == "in_qa"


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    lines = []
    for name, spec in sorted(BUILT_IN.verbs.items()):
        args = " ".join(f"`:{one.name}`" if one.required else f"[`:{one.name}`]" for one in spec.args)
        lines.append(f"| `{name}` | {args} | `{spec.capability}` | {spec.description} |")
    missing = [line for line in lines if line not in DOCUMENTED]
    assert not missing, "docs/verbs.md needs:\n" + "\n".join(missing)
    assert DOCUMENTED.count("\n| `") == len(lines)
