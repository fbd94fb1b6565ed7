"""The words of our own mails when they are sent: in the person's language and time zone, by the org's templates."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from assent.language.mails import (
    DECIDE_LINK,
    LANGUAGE,
    QUESTIONS_MAX,
    TIME_ZONE,
    MailKind,
    MailTemplate,
    MailWords,
    moment_text,
    question_variables,
    render_mail,
)

if TYPE_CHECKING:
    from assent.effects.claimed_effect import ClaimedEffect

_MOMENTS = ("starts", "ends")
"""Facts that are times, which are shown in the person's time zone."""


def words_of(effect: "ClaimedEffect", public_url: str, decide_link: str | None) -> MailWords:
    """Return the words of a message of ours."""
    mail = effect.payload["mail"]
    recipient = _Recipient(effect.mail or {})
    variables = {
        **_variables(mail["kind"], mail["facts"], recipient, effect.org_id, public_url),
        "org": recipient.org or effect.org_id,
        "name": recipient.name or effect.payload.get("user"),
        "link": effect.link(public_url),
        DECIDE_LINK: decide_link,
    }
    return render_mail(mail["kind"], recipient.languages, recipient.templates(mail["kind"]), variables)


class _Recipient:
    """Who is written to, and how."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        settings = found.get("settings") or {}
        self.org, self.name = found.get("org"), found.get("name")
        languages = (found.get("language"), settings.get("mail_language"), LANGUAGE)
        self.languages = tuple(dict.fromkeys(one for one in languages if isinstance(one, str)))
        zones = (found.get("time_zone"), settings.get("mail_time_zone"), TIME_ZONE)
        self.time_zone = next(zone for zone in zones if isinstance(zone, str))
        self._templates: Sequence[Mapping[str, Any]] = found.get("templates") or ()

    def templates(self, kind: MailKind) -> Mapping[str, MailTemplate]:
        return {
            row["language"]: MailTemplate(row["subject"], row["text"], row["html"])
            for row in self._templates
            if row["kind"] == kind
        }


def _variables(
    kind: MailKind, facts: Mapping[str, Any], recipient: _Recipient, org_id: str, public_url: str
) -> dict[str, Any]:
    language, zone = recipient.languages[0], recipient.time_zone
    if kind in ("asked", "reminded", "escalated"):
        return question_variables(facts, language, zone)
    if kind == "digest":
        shown = facts["questions"][:QUESTIONS_MAX]
        return {
            "count": facts["count"],
            "questions": [_line(one, recipient, org_id, public_url) for one in shown],
        }
    return {
        name: _moment(value, zone) if name in _MOMENTS and value else value for name, value in facts.items()
    }


def _line(
    question: Mapping[str, Any], recipient: _Recipient, org_id: str, public_url: str
) -> tuple[str, str | None]:
    """Return the words of a question in a digest, which are the subject of its own mail, and its link."""
    variables = question_variables(question, recipient.languages[0], recipient.time_zone)
    words = render_mail("asked", recipient.languages, recipient.templates("asked"), variables)
    parts = ("app", org_id, question["page"], question["request"])
    path = "/".join(quote(part, safe="") for part in parts)
    return words.subject, f"{public_url}/{path}" if public_url else None


def _moment(text: str, zone: str) -> str:
    return moment_text(datetime.fromisoformat(text), zone)
