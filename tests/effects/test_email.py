"""Mails, to a real SMTP server: what arrives, what is refused, and what nobody can tell."""

import ssl
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from assent.effects.email import address_of
from assent.effects.settings import SmtpSettings
from assent.jobs.job import Failed
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.effects.mailbox import SENDER, Mailbox, mail_server
from tests.receiver import CERTIFICATES
from tests.workers import EffectsWorker
from tests.world import ORG, publish_step

TELL = {
    "id": "tell",
    "type": "notification",
    "channel": "email",
    "to": "{workflow.to}",
    "subject": "Order {workflow.order}",
    "text": "Order {workflow.order} is confirmed.\nGrüße",
}


@pytest.fixture
def posting(effects_worker: EffectsWorker, mailbox: Mailbox) -> EffectsWorker:
    return effects_worker.sending(mailbox.settings)


async def add_member(database: Database, user_id: str, email: str | None, *, active: bool = True) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, email, active) VALUES ($1, $2, $2, $3, $4)",
            *(ORG, user_id, email, active),
        )


async def told(posting: EffectsWorker, **data: Any) -> dict[str, Any]:
    """The effect of a mail about an order, after one attempt."""
    await publish_step(posting.database, TELL)
    await posting.start("telling", **{"to": "cy@client.example", "order": 7} | data)
    await posting.send()
    return await posting.effect()


async def test_mail_arrives_and_reads_right(
    posting: EffectsWorker, mailbox: Mailbox, clock: MovedClock
) -> None:
    effect = await told(posting)
    (mail,), (envelope,) = mailbox.mails, mailbox.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == (SENDER, ["cy@client.example"])
    assert (mail["from"], mail["to"], mail["subject"]) == (SENDER, "cy@client.example", "Order 7")
    assert mail.get_content().replace("\r\n", "\n") == "Order 7 is confirmed.\nGrüße\n"
    assert mail["auto-submitted"] == "auto-generated"
    assert parsedate_to_datetime(mail["date"]) == clock.now()
    assert mail["message-id"] == f"<{effect['key']}@acme.example>"
    evidence = effect["output"]
    assert (effect["status"], evidence["said"]) == ("done", "250 taken")
    assert evidence["message_id"] == mail["message-id"]


async def test_mail_that_is_sent_again_has_the_same_id(
    posting: EffectsWorker, mailbox: Mailbox, clock: MovedClock
) -> None:
    mailbox.answers = ["451 try again"]
    effect = await told(posting)
    assert (effect["status"], effect["ambiguous"]) == ("retrying", False)
    clock.advance("1m")
    assert await posting.send() == {"done": 1}
    first, second = mailbox.mails
    assert first["message-id"] == second["message-id"]


async def test_mail_that_was_handed_over_without_an_answer_is_ambiguous_and_sent_again(
    posting: EffectsWorker, mailbox: Mailbox, clock: MovedClock
) -> None:
    """Twice is better than never, and mail systems know it by its id."""
    mailbox.answers = [None]
    effect = await told(posting)
    assert (effect["status"], effect["ambiguous"]) == ("retrying", True)
    clock.advance("1m")
    assert await posting.send() == {"done": 1}
    assert len({mail["message-id"] for mail in mailbox.mails}) == 1


async def test_mail_that_must_not_come_twice_is_given_up(posting: EffectsWorker, mailbox: Mailbox) -> None:
    mailbox.answers = [None]
    await publish_step(posting.database, {**TELL, "on_ambiguous": "give_up"})
    await posting.start("telling", to="cy@client.example", order=7)
    assert await posting.send() == {"dead": 1}


@pytest.mark.parametrize(("said", "status"), [("550 no such user", "dead"), ("450 busy", "retrying")])
async def test_refusal_of_a_recipient_says_whether_it_is_for_good(
    posting: EffectsWorker, mailbox: Mailbox, said: str, status: str
) -> None:
    mailbox.refused["cy@client.example"] = said
    effect = await told(posting)
    assert effect["status"] == status
    assert effect["error"].startswith(f"SMTP_{said[:3]}")
    assert mailbox.mails == []


async def test_refusal_of_the_content_says_whether_it_is_for_good(
    posting: EffectsWorker, mailbox: Mailbox
) -> None:
    mailbox.answers = ["554 spam"]
    assert (await told(posting))["status"] == "dead"


async def test_server_that_is_not_there_is_tried_again(effects_worker: EffectsWorker) -> None:
    effect = await told(
        effects_worker.sending(SmtpSettings(host="127.0.0.1", port=9, tls="none", sender=SENDER))
    )
    assert (effect["status"], effect["ambiguous"]) == ("retrying", False)


async def test_member_is_written_to_at_their_address(posting: EffectsWorker, mailbox: Mailbox) -> None:
    await add_member(posting.database, "bea", "bea@acme.example")
    await told(posting, to="bea")
    assert [mail["to"] for mail in mailbox.mails] == ["bea@acme.example"]


@pytest.mark.parametrize("to", ["bob", "eve", "zoe", "nobody"])
async def test_somebody_without_an_address_is_a_dead_letter_that_can_be_tried_again_when_they_have_one(
    posting: EffectsWorker, mailbox: Mailbox, to: str
) -> None:
    await add_member(posting.database, "bob", None)
    await add_member(posting.database, "eve", "eve@acme.example", active=False)
    effect = await told(posting, to=to)
    assert (effect["status"], effect["error"]) == (
        "dead",
        f"NO_ADDRESS: {to} is no member with an address",
    )
    if to == "bob":
        async with posting.database.transaction(None) as connection:
            await connection.execute(
                "UPDATE assent.members SET email = 'bob@acme.example' WHERE org_id = 'acme' AND user_id = 'bob'"
            )
        await posting.runtime.org(ORG).dead_letters.retry(effect["id"], "effect")
        assert await posting.send() == {"done": 1}


@pytest.mark.parametrize(
    "to",
    [
        "a@b.example\r\nBcc: evil@c.example",
        "a@b.example\nBcc: evil@c.example",
        "a@b.example, evil@c.example",
        "<a@b.example>",
        "a@b@c.example\0",
        "@b.example",
        "a@",
        "ä@b.example",
        "x" * 250 + "@b.example",
    ],
)
async def test_recipient_that_is_no_single_address_is_not_written_to(
    posting: EffectsWorker, mailbox: Mailbox, to: str
) -> None:
    assert isinstance(address_of({"to": to}, None), Failed)
    if "\0" not in to:
        assert (await told(posting, to=to))["error"].startswith("BAD_ADDRESS")
        assert mailbox.envelopes == []


async def test_subject_cannot_begin_another_header(posting: EffectsWorker, mailbox: Mailbox) -> None:
    await told(posting, order="7\r\nBcc: evil@c.example\r\n\r\nbody")
    (mail,) = mailbox.mails
    assert mail["subject"] == "Order 7 Bcc: evil@c.example body"
    assert (mail["bcc"], mailbox.envelopes[0].rcpt_tos) == (None, ["cy@client.example"])


async def test_body_cannot_end_the_message_early(posting: EffectsWorker, mailbox: Mailbox) -> None:
    await told(posting, order="7\r\n.\r\nMAIL FROM:<evil@c.example>")
    (mail,) = mailbox.mails
    assert "MAIL FROM" in mail.get_content()


async def test_name_and_password_are_given_over_an_encrypted_connection(
    effects_worker: EffectsWorker, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / "receiver.pem", CERTIFICATES / "receiver.key")
    with mail_server(context) as mailbox:
        settings = mailbox.settings.replace(tls="starttls", user="assent", password="wrong")
        effect = await told(effects_worker.sending(settings))
        assert "certificate" in effect["error"], "nobody vouches for it"
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "receiver.pem"))
        clock.advance("1m")
        await effects_worker.sending(settings).send()
        effect = await effects_worker.effect()
        assert (effect["status"], effect["error"][:8]) == ("retrying", "SMTP_535")
        clock.advance("1m")
        assert await effects_worker.sending(settings.replace(password="secret")).send() == {"done": 1}
        assert len(mailbox.mails) == 1


async def test_server_that_cannot_encrypt_gets_nothing_where_that_is_wanted(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    settings = SmtpSettings(host="127.0.0.1", port=mailbox.port, tls="starttls", sender=SENDER)
    effect = await told(effects_worker.sending(settings))
    assert effect["status"] == "retrying"
    assert mailbox.envelopes == []
