"""Mails that ask people, to a real SMTP server: who asks what by when, the link, and what a missing server means."""

import logging
from typing import Any

import pytest

from assent.app import App
from assent.effects.outlets import Message
from assent.effects.settings import PublicSettings
from assent.model.actor import Actor
from assent.model.problems import Invalid
from assent.store.database import Database
from tests.authored import END, arrows
from tests.effects.mailbox import SENDER, Mailbox
from tests.settings import read_from
from tests.workers import EffectsWorker, open_effects_worker
from tests.world import ORG, WorldMember, found_acme, hire, insert_org, publish_steps

URL = "https://flows.acme.example"
LABEL = "Check <b>this</b> & that"
SUBJECT = f"{LABEL}: asking (requested by ann, due 2026-03-03 09:00 UTC)"


async def ask(effects_worker: EffectsWorker, kind: str = "approval", **rest: Any) -> None:
    """Ask bea, who answers in her inbox."""
    await found_acme(effects_worker.database, {"ann": [], "bea": []})
    await publish_question(effects_worker.database, kind, **rest)
    await effects_worker.start("asking")


async def publish_question(database: Database, kind: str = "approval", org: str = ORG, **rest: Any) -> None:
    step = {
        "id": "ask",
        "type": kind,
        "label": LABEL,
        "assignee": {"user": "bea"},
        "due": "1d",
        "notify": "email",
    }
    if kind == "approval":
        ways = [*arrows("ask", "end", event="approved"), *arrows("ask", "end", event="rejected")]
    else:
        ways = arrows("ask", "end", event="sent")
    await publish_steps(database, "asking", [step | rest, END], ways, org=org)


@pytest.mark.parametrize(("kind", "page"), [("approval", "approvals"), ("form", "forms")])
async def test_mail_names_the_question_and_links_to_it(
    effects_worker: EffectsWorker, mailbox: Mailbox, kind: str, page: str
) -> None:
    await ask(effects_worker, kind)
    assert await effects_worker.sending(mailbox.settings, public_url=f"{URL}/").send() == {"done": 1}
    effect, (mail,) = await effects_worker.effect(), mailbox.mails
    link = f"{URL}/app/acme/{page}/{effect['payload']['request']}"
    # A long subject is folded; the space of the fold is no part of it.
    assert (mail["from"], mail["to"], mail["subject"].strip()) == (SENDER, "bea@acme.example", SUBJECT)
    assert (mail["auto-submitted"], mail["message-id"]) == (
        "auto-generated",
        f"<{effect['key']}@acme.example>",
    )
    assert mail.get_content_type() == "multipart/alternative"
    plain, html = (part.get_content().replace("\r\n", "\n") for part in mail.iter_parts())
    assert f"{LABEL}: asking" in plain
    assert plain.endswith(f"It was requested by ann. It is due 2026-03-03 09:00 UTC.\n\nOpen it: {link}\n")
    assert "Check &lt;b&gt;this&lt;/b&gt; &amp; that" in html
    assert "<b>" not in html
    assert f'<a href="{link}">' in html
    assert URL not in str(effect), "the address is rendered when the mail is sent, and stored nowhere"


async def test_without_a_public_url_there_is_no_link(effects_worker: EffectsWorker, mailbox: Mailbox) -> None:
    await ask(effects_worker)
    await effects_worker.sending(mailbox.settings).send()
    plain, html = (part.get_content() for part in mailbox.mails[0].iter_parts())
    assert plain.rstrip().endswith("It is due 2026-03-03 09:00 UTC.")
    assert "http" not in plain + html
    assert "Open" not in plain + html


async def test_adapter_gets_the_link_too(app: App, database: Database) -> None:
    sent: list[Message] = []
    app.adapter("chat", sent.append)
    effects_worker = open_effects_worker(app, database).sending(public_url=URL)
    await ask(effects_worker, notify="chat")
    await effects_worker.send()
    request = (await effects_worker.effect())["payload"]["request"]
    assert sent[0].text.endswith(f"\n\nOpen it: {URL}/app/acme/approvals/{request}")


async def test_long_title_leaves_room_for_who_asks_and_by_when(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker, label="x" * 200)
    await effects_worker.sending(mailbox.settings).send()
    assert mailbox.mails[0]["subject"] == f"{'x' * 99}… (requested by ann, due 2026-03-03 09:00 UTC)"


async def test_missing_mail_server_is_one_warning_for_each_org_and_no_dead_letter(
    effects_worker: EffectsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(effects_worker)
    view = await effects_worker.start("asking")
    async with effects_worker.database.transaction(None) as connection:
        await insert_org(connection, "globex")
        await hire(
            connection,
            {name: WorldMember([], email=f"{name}@globex.example") for name in ("ann", "bea")},
            "globex",
        )
    await publish_question(effects_worker.database, org="globex")
    await effects_worker.runtime.org("globex", Actor("ann")).instances.start("asking", {})

    with caplog.at_level(logging.WARNING, "assent.effects.deliver"):
        assert await effects_worker.send() == {"done": 3}
    warnings = [record for record in caplog.records if record.name == "assent.effects.deliver"]
    assert sorted(record.org_id for record in warnings) == ["acme", "globex"]  # type: ignore[attr-defined]
    assert {effect["status"] for effect in await effects_worker.effects()} == {"done"}
    (evidence,) = (await effects_worker.step(view.id, "ask"))["output_json"]["evidence"].values()
    assert (evidence["outcome"], evidence["code"]) == ("skipped", "NO_MAIL_SERVER")
    assert "ASSENT_SMTP_HOST" in evidence["message"]


@pytest.mark.parametrize("url", ["flows.acme.example", "ftp://flows.acme.example", "https://a.example/?x=1"])
def test_public_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="ASSENT_PUBLIC_URL"):
        read_from(PublicSettings, {"ASSENT_PUBLIC_URL": url})
