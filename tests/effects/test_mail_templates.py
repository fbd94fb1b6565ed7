"""The words of our own mails: in the person's language and time zone, as the org writes them; no value breaks out."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from assent.effects.mail_templates import EXAMPLE_FACTS, example_variables
from assent.language.mails import (
    BUILT_IN,
    DECIDE_LINK,
    MAIL_KINDS,
    VARIABLES,
    MailTemplate,
    check_mail_template,
    one_line,
    question_variables,
    render_mail,
)
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from assent.store.database import Database
from tests.effects.mailbox import Mailbox
from tests.effects.test_questions import URL, ask, publish_question
from tests.workers import EffectsWorker
from tests.world import ORG, WorldMember, actor, found_acme, hire, insert_org, rows

ADMIN = actor("adam", "org:manage")


def parts_of(mailbox: Mailbox) -> tuple[str, str, str]:
    """The subject, the text and the HTML of the newest mail."""
    mail = mailbox.mails[-1]
    plain, html = (part.get_content().replace("\r\n", "\n") for part in mail.iter_parts())
    return mail["subject"].strip(), plain, html


async def save(worker: EffectsWorker, kind: str, language: str, org: str = ORG, **parts: str) -> None:
    await worker.runtime.org(org, ADMIN).mail_templates.save(kind, language, parts)


async def prefer(worker: EffectsWorker, who: str = "bea", **changes: Any) -> None:
    await worker.runtime.org(ORG, actor(who)).preferences.change(changes)


def test_every_language_of_ours_has_every_kind_of_mail() -> None:
    assert set(BUILT_IN) == {"en", "de"}
    assert all(set(kinds) == set(MAIL_KINDS) for kinds in BUILT_IN.values())
    for kind in MAIL_KINDS:
        for part in ("subject", "text"):
            texts = [getattr(BUILT_IN[language][kind], part) for language in BUILT_IN]
            assert all(texts)
            assert len(set(texts)) == len(texts), f"{part} of {kind} is not translated"


@pytest.mark.parametrize(("language", "kind"), list(product(BUILT_IN, MAIL_KINDS)))
def test_our_templates_name_only_what_there_is_and_read_well(language: str, kind: Any) -> None:
    assert check_mail_template(kind, BUILT_IN[language][kind]) == []
    example = example_variables(kind, language)
    assert VARIABLES[kind].keys() <= example.keys()
    full = render_mail(kind, [language], {}, example)
    bare = render_mail(kind, [language], {}, {name: example.get(name) for name in ("what", "what_short")})
    for words in (full, bare):
        assert "None" not in words.subject + words.text + words.html
        assert "{" not in words.subject + words.text
        assert f'lang="{language}"' in words.html


@pytest.mark.parametrize("part", ["subject", "text", "html"])
def test_no_template_names_the_link_that_decides(part: Any) -> None:
    """It decides for the person who opens it: an author would have it sent on, in the address of an image."""
    template = MailTemplate(**{part: "https://elsewhere.example/?{decide_link}"})
    assert [problem.code for problem in check_mail_template("asked", template)] == ["UNKNOWN_VARIABLE"]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_link_that_decides_stands_alone_behind_the_words_of_the_org(language: str) -> None:
    own = MailTemplate(
        "S", "Look: https://elsewhere.example/?", '<p>Hi</p><img src="https://elsewhere.example/?'
    )
    variables = {**example_variables("asked", "en"), DECIDE_LINK: "https://flows.example/decide/x.y&z"}
    words = render_mail("asked", [language], {language: own}, variables)
    assert words.text.startswith("Look: https://elsewhere.example/?\n\n")
    assert words.text.endswith(": https://flows.example/decide/x.y&z")
    assert "<img" not in words.html
    link = "https://flows.example/decide/x.y&amp;z"
    assert f'<a href="{link}">{link}</a></p>' in words.html
    assert (words.subject, words.html.count("/decide/")) == ("S", 2)
    without = render_mail("asked", [language], {language: own}, example_variables("asked", "en"))
    assert "<img" in without.html
    assert "/decide/" not in without.html + without.text


async def test_member_is_written_to_in_their_language_and_time_zone(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker)
    await prefer(effects_worker, language="de", time_zone="Europe/Berlin")
    await effects_worker.sending(mailbox.settings, public_url=URL).send()
    subject, plain, html = parts_of(mailbox)
    assert subject.endswith("(angefragt von ann, fällig 2026-03-03 10:00 CET)")
    assert "Sie sind gebeten, über" in plain
    assert "Öffnen: https://" in plain
    assert '<html lang="de">' in html


async def test_org_has_a_language_for_members_who_chose_none(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker)
    settings = {"mail_language": "de", "mail_time_zone": "America/New_York"}
    await effects_worker.runtime.org(ORG, ADMIN).settings.change(settings)
    await effects_worker.sending(mailbox.settings).send()
    assert parts_of(mailbox)[0].endswith("(angefragt von ann, fällig 2026-03-03 04:00 EST)")


async def test_org_writes_some_parts_and_ours_are_the_others(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker)
    await save(effects_worker, "asked", "en", subject="{org}: {step} for {name}")
    await effects_worker.sending(mailbox.settings).send()
    subject, plain, _ = parts_of(mailbox)
    assert subject == "Acme: Check <b>this</b> & that for bea"
    assert plain.startswith("You are asked to decide")


async def test_language_that_we_do_not_speak_needs_a_template_of_the_org(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker)
    await prefer(effects_worker, language="fr")
    await save(effects_worker, "reminded", "fr", subject="Rappel")
    await effects_worker.sending(mailbox.settings).send()
    assert "requested by ann" in parts_of(mailbox)[0]
    await save(effects_worker, "asked", "fr", subject="Question: {step}", text="Veuillez décider de {what}.")
    await effects_worker.start("asking")
    await effects_worker.sending(mailbox.settings).send()
    assert parts_of(mailbox)[1] == "Veuillez décider de Check <b>this</b> & that: asking.\n"


async def test_values_are_escaped_in_the_html_of_the_org(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker, label='"><script>alert(1)</script>')
    html = "<p class='x'><a href=\"{link}\">{concat(upper(step), '<i>')}</a> {what}</p>"
    await save(effects_worker, "asked", "en", html=html)
    await effects_worker.sending(mailbox.settings, public_url=URL).send()
    _, _, sent = parts_of(mailbox)
    assert "<script" not in sent.lower()
    assert "<i>" not in sent
    assert "<p class='x'><a href=\"https://flows.acme.example/app/acme/approvals/" in sent
    assert "&quot;&gt;&lt;script&gt;" in sent


@pytest.mark.parametrize("part", ["subject", "text"])
async def test_no_value_begins_another_header(
    effects_worker: EffectsWorker, mailbox: Mailbox, part: str
) -> None:
    await ask(effects_worker, label="x\r\nBcc: evil@c.example\r\n\r\nbody\u2028Cc: evil@c.example")
    await save(effects_worker, "asked", "en", **{part: "{step}"})
    await effects_worker.sending(mailbox.settings).send()
    (mail,), (envelope,) = mailbox.mails, mailbox.envelopes
    assert (mail["bcc"], mail["cc"], envelope.rcpt_tos) == (None, None, ["bea@acme.example"])
    assert one_line("a\r\nb\u2028c\x00d\x1b[1m") == "a b c d [1m"


@pytest.mark.parametrize(
    ("parts", "code", "path", "hint"),
    [
        ({"subject": "{wat}"}, "UNKNOWN_VARIABLE", ("subject",), "did you mean `what`?"),
        ({"html": "<p>{entity.total}</p>"}, "UNKNOWN_VARIABLE", ("html",), None),
        ({"text": "{questions}"}, "UNKNOWN_VARIABLE", ("text",), None),
        ({"subject": "a\nb"}, "BAD_VALUE", ("subject",), None),
        ({"text": " "}, "BLANK", ("text",), None),
        ({"text": "{what"}, "TEMPLATE_SYNTAX", ("text",), None),
        ({"text": "x" * 10_001}, "TOO_LONG", ("text",), None),
        ({"subjct": "x"}, "UNKNOWN_KEY", ("subjct",), "did you mean `subject`?"),
        ({"text": 5}, "WRONG_TYPE", ("text",), None),
        ({"text": "\ud800"}, "NOT_CANONICAL", ("text",), None),
        ({}, "MISSING_KEY", (), None),
    ],
)
async def test_template_with_a_mistake_is_not_saved(
    effects_worker: EffectsWorker,
    parts: Mapping[str, Any],
    code: str,
    path: tuple[str, ...],
    hint: str | None,
) -> None:
    with pytest.raises(Invalid) as caught:
        await effects_worker.runtime.org(ORG, ADMIN).mail_templates.save("asked", "en", parts)
    (problem,) = [one for one in caught.value.problems if one.path == path]
    assert hint is None or problem.hint == hint
    if code != "NOT_CANONICAL":
        assert problem.code == code
    assert await rows(effects_worker.database, "mail_templates") == []


async def test_kinds_and_languages_are_known(effects_worker: EffectsWorker) -> None:
    templates = effects_worker.runtime.org(ORG, ADMIN).mail_templates
    with pytest.raises(Refused, match="NOT_FOUND") as caught:
        await templates.save("digset", "en", {"subject": "x"})
    assert caught.value.rejection.hint == "did you mean `digest`?"
    with pytest.raises(Refused, match="BAD_VALUE"):
        await templates.save("digest", "english", {"subject": "x"})
    with pytest.raises(Refused, match="NOT_FOUND"):
        await templates.get("digest", "fr")


async def test_deleted_template_is_ours_again(effects_worker: EffectsWorker, mailbox: Mailbox) -> None:
    await ask(effects_worker)
    await save(effects_worker, "asked", "en", subject="mine", text="mine")
    templates = effects_worker.runtime.org(ORG, ADMIN).mail_templates
    assert (await templates.get("asked", "en")).own == ("subject", "text")
    await templates.delete("asked", "en")
    assert (await templates.get("asked", "en")).own == ()
    with pytest.raises(Refused, match="NOT_FOUND"):
        await templates.delete("asked", "en")
    await effects_worker.sending(mailbox.settings).send()
    assert "requested by ann" in parts_of(mailbox)[0]


async def test_template_of_another_org_writes_nothing_here(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    await ask(effects_worker)
    async with effects_worker.database.transaction(None) as connection:
        await insert_org(connection, "globex")
        await hire(connection, {"bea": WorldMember([], email="bea@globex.example")}, "globex")
    await save(effects_worker, "asked", "en", org="globex", subject="globex")
    await publish_question(effects_worker.database, org="globex")
    await effects_worker.runtime.org("globex", Actor("ann")).instances.start("asking", {})
    await effects_worker.sending(mailbox.settings).send()
    subjects = {mail["to"]: mail["subject"] for mail in mailbox.mails}
    assert "requested by ann" in subjects["bea@acme.example"]
    assert subjects["bea@globex.example"] == "globex"


async def test_template_that_does_not_render_any_more_is_ours(
    effects_worker: EffectsWorker, mailbox: Mailbox
) -> None:
    """A release may take a variable away; a mail must go out all the same."""
    await ask(effects_worker)
    async with effects_worker.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.mail_templates (org_id, kind, language, subject, updated_by) "
            "VALUES ('acme', 'asked', 'en', '{of_an_earlier_release}', 'ann')"
        )
    await effects_worker.sending(mailbox.settings).send()
    assert "requested by ann" in parts_of(mailbox)[0]


async def test_preview_shows_what_is_not_saved_yet(effects_worker: EffectsWorker) -> None:
    templates = effects_worker.runtime.org(ORG, ADMIN).mail_templates
    saved = await templates.preview("asked", "de")
    assert "20.600,00 EUR" in saved.subject
    words = await templates.preview("asked", "en", {"html": "<b>{title}</b>"})
    assert "<b>Order 7</b>" in words.html
    assert (
        words.subject
        == render_mail("asked", ["en"], {}, question_variables(EXAMPLE_FACTS, "en", "UTC")).subject
    )
    with pytest.raises(Invalid):
        await templates.preview("asked", "en", {"html": "{titel}"})
    assert await rows(effects_worker.database, "mail_templates") == []


async def test_saving_takes_the_right_and_is_audited(effects_worker: EffectsWorker) -> None:
    for refused in (
        effects_worker.runtime.org(ORG, actor("ann")).mail_templates.save("asked", "en", {"subject": "x"}),
        effects_worker.runtime.org(ORG, actor("ann")).mail_templates.list(),
        effects_worker.runtime.org(ORG, actor("ann")).mail_templates.preview("asked", "en"),
    ):
        with pytest.raises(Refused, match="POLICY_DENIED"):
            await refused
    await save(effects_worker, "asked", "en", subject="x")
    await save(effects_worker, "asked", "en", subject="y")
    entries = [
        row
        for row in await rows(effects_worker.database, "audit_log")
        if row["subject_kind"] == "mail_template"
    ]
    assert [(row["action"], row["actor_id"]) for row in entries] == [
        ("mail_template.create", "adam"),
        ("mail_template.change", "adam"),
    ]
    assert entries[1]["changes"] == {"subject": ["x", "y"]}
    assert entries[1]["details"] == {"language": "en"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"language": "deutsch"}, "language"),
        ({"time_zone": "Europe/Atlantis"}, "time_zone"),
        ({"time_zone": "x; DROP"}, "time_zone"),
        ({"mails": "weekly"}, "mails"),
        ({"digest_hour": 24}, "digest_hour"),
    ],
)
async def test_preference_that_means_nothing_is_refused(
    effects_worker: EffectsWorker, changes: Mapping[str, Any], path: str
) -> None:
    with pytest.raises(Refused, match="BAD_VALUE") as caught:
        await prefer(effects_worker, **changes)
    assert caught.value.rejection.path == (path,)
    assert await rows(effects_worker.database, "member_preferences") == []


async def test_each_sets_their_own_preferences_and_others_stay(
    effects_worker: EffectsWorker, database: Database
) -> None:
    await found_acme(database, {"bea": [], "ann": []})
    await prefer(effects_worker, language="de")
    await prefer(effects_worker, mails="daily", digest_hour=7)
    found = await effects_worker.runtime.org(ORG, actor("bea")).preferences.get()
    assert (found.language, found.mails, found.digest_hour, found.time_zone) == ("de", "daily", 7, "UTC")
    assert (await effects_worker.runtime.org(ORG, actor("ann")).preferences.get()).language is None
    assert (await effects_worker.runtime.org("globex", actor("bea")).preferences.get()).language is None
    entries = [row for row in await rows(database, "audit_log") if row["subject_kind"] == "preferences"]
    assert [(row["action"], row["actor_id"], row["subject_id"]) for row in entries] == [
        ("preferences.create", "bea", "bea"),
        ("preferences.change", "bea", "bea"),
    ]
