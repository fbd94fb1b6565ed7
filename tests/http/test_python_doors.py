"""What administrators do in Python: each method asks the right of its route, and keeps to the org and the partition."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.runtime.runtime import OrgRuntime
from assent.store.database import Database
from tests.http.application import LEAVE, app
from tests.world import OTHER_ORG

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
NOBODY = Actor("alice")
ADAM = Actor("adam", capabilities=frozenset({"*"}))

TAKES: dict[str, Callable[[OrgRuntime], Awaitable[Any]]] = {
    "members:manage create": lambda acme: acme.members.create("dora"),
    "members:manage change": lambda acme: acme.members.change("bob", {"name": "Bob"}),
    "members:manage deactivate": lambda acme: acme.members.deactivate("bob"),
    "members:manage restore": lambda acme: acme.members.restore("bob"),
    "roles:manage list": lambda acme: acme.roles.list(),
    "roles:manage get": lambda acme: acme.roles.get("clerk"),
    "roles:manage save": lambda acme: acme.roles.save("clerk", ["audit:read"]),
    "roles:manage grant": lambda acme: acme.roles.grant("clerk", ["audit:read"]),
    "roles:manage revoke": lambda acme: acme.roles.revoke("clerk", ["audit:read"]),
    "keys:manage list": lambda acme: acme.keys.list("bob"),
    "keys:manage list of all": lambda acme: acme.keys.list(everyone=True),
    "keys:manage create": lambda acme: acme.keys.create("import", user_id="robot"),
    "approvals:delegate list": lambda acme: acme.delegations.list("bob"),
    "approvals:delegate list of all": lambda acme: acme.delegations.list(everyone=True),
    "approvals:delegate create": lambda acme: acme.delegations.create("carol", from_user="bob"),
    "events:sources list": lambda acme: acme.event_sources.list(),
    "events:sources create": lambda acme: acme.event_sources.create("bank", "payment:"),
    "events:sources rotate": lambda acme: acme.event_sources.rotate("bank"),
    "events:sources retire": lambda acme: acme.event_sources.retire("bank"),
    "events:sources delete": lambda acme: acme.event_sources.delete("bank"),
    "definitions:edit create": lambda acme: acme.drafts.create(LEAVE),
    "definitions:edit change": lambda acme: acme.drafts.change(ID, LEAVE),
    "definitions:edit discard": lambda acme: acme.drafts.discard(ID),
    "definitions:publish": lambda acme: acme.drafts.publish(ID),
    "definitions:read services": lambda acme: acme.services.list(),
    "audit:read": lambda acme: acme.audit.search(),
    "operations:read": lambda acme: acme.operations.health(),
    "workflows:repair stuck": lambda acme: acme.operations.stuck(),
    "workflows:retry open": lambda acme: acme.events.list_open(),
    "workflows:retry dead letters": lambda acme: acme.dead_letters.list(),
    "workflows:retry dead letter": lambda acme: acme.dead_letters.retry(ID, "effect"),
    "workflows:retry all": lambda acme: acme.dead_letters.retry_all("result"),
    "workflows:repair rebuild": lambda acme: acme.operations.rebuild(ID),
    "workflows:repair fold": lambda acme: acme.operations.fold(ID),
    "workflows:repair reenqueue": lambda acme: acme.operations.reenqueue(ID),
    "tasks:cancel": lambda acme: acme.tasks.cancel(ID),
    "tasks:retry": lambda acme: acme.tasks.retry(ID),
    "tasks:retry all": lambda acme: acme.tasks.retry_all(),
    "tasks:complete": lambda acme: acme.tasks.complete(ID),
    "tasks:complete fail": lambda acme: acme.tasks.fail(ID, "no paper"),
}


@pytest.mark.parametrize("takes", TAKES)
async def test_a_method_takes_the_capability_of_its_route(furnished: Database, takes: str) -> None:
    acme = app.runtime(furnished).org("acme", NOBODY)
    with pytest.raises(Refused) as refused:
        await TAKES[takes](acme)
    assert refused.value.code == "POLICY_DENIED"
    if takes != "approvals:delegate create":
        assert takes.split(maxsplit=1)[0] in str(refused.value)


async def test_an_administrator_does_it_all_and_sees_no_other_org(furnished: Database) -> None:
    acme, other = (app.runtime(furnished).org(org, ADAM) for org in ("acme", OTHER_ORG))
    assert (await acme.members.create("dora", roles=["clerk", "clerk"])).roles == ("clerk",)
    assert (await acme.members.deactivate("dora")).active is False
    assert (await acme.members.restore("dora")).active is True
    assert (await acme.roles.grant("reader", ["audit:read"])).capabilities == ("audit:read",)
    text, key = await acme.keys.create("import", user_id="robot")
    assert text.startswith(key.prefix)
    assert [one.id for one in (await acme.keys.list("robot")).items] == [key.id]
    secret, source = await acme.event_sources.create("bank", "payment:")
    assert secret.startswith("whsec_")
    assert [one.name for one in (await acme.event_sources.list()).items] == [source.name]
    draft = await acme.drafts.create(LEAVE)
    assert draft.problems == ()
    for attempt in (
        other.members.get("dora"),
        other.keys.revoke(key.id),
        other.event_sources.delete("bank"),
        other.drafts.get(draft.content.version.id),
        other.definitions.get(draft.content.version.id),
    ):
        with pytest.raises(Refused) as refused:
            await attempt
        assert refused.value.code == "NOT_FOUND"
    done = await acme.drafts.publish(draft.content.version.id, tag=draft.tag)
    assert (await acme.definitions.get(done.source.id)).source["flow"] == LEAVE["flow"]
    drawn = await acme.definitions.draw((done.effective or done.source).id)
    assert drawn.startswith("flowchart")
    actions = [row["action"] for row in (await acme.audit.search(actor="adam")).items]
    assert len(actions) >= 6
    page = await acme.members.list(limit=1)
    following = await acme.members.list(cursor=page.next)
    assert following.items[0].user_id > page.items[0].user_id


async def test_what_is_open_is_of_the_partition_of_the_reader(furnished: Database) -> None:
    runtime = app.runtime(furnished)
    await runtime.org("acme", ADAM, "north").events.emit("paid:1")
    await runtime.org("acme", ADAM).events.emit("paid:2")
    keys = {item.event_key for item in await runtime.org("acme", ADAM).events.list_open()}
    assert keys == {"paid:1", "paid:2"}
    for partition, seen in (("north", ["paid:1"]), ("south", [])):
        found = await runtime.org("acme", ADAM, partition).events.list_open()
        assert [item.event_key for item in found] == seen
