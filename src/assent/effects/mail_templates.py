"""The mail templates of an org: what it writes in place of our mails, by kind and language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Self, cast

from assent.language.mails import (
    BUILT_IN,
    LANGUAGE,
    LANGUAGE_PATTERN,
    MAIL_KINDS,
    MAIL_PARTS,
    VARIABLES,
    MailKind,
    MailTemplate,
    MailWords,
    check_mail_template,
    question_variables,
    render_mail,
)
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.mutation import Refused, Rejection
from assent.model.problems import HINTS_MAX, PROBLEMS_MAX, Invalid, Problem, did_you_mean
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.effects", "effects.sql")

PART_CHARACTERS_MAX: Final = 10_000

EXAMPLE_FACTS: Final[Mapping[str, Any]] = {
    "what": "Review: Order 7",
    "step": "Review",
    "title": "Order 7",
    "figure": "2060000",
    "currency": "EUR",
    "requested_by": "ann",
    "due_at": "2026-03-03T09:00:00+00:00",
    "version": 2,
}
_LINK: Final = "https://flows.example.com/app/acme/approvals/01890a5d-ac96-774b-bcce-b302099a8057"


@dataclass(frozen=True, slots=True)
class SavedMailTemplate:
    """The template of a kind of mail in a language: ours, or with the parts that the org writes in place of ours."""

    kind: MailKind
    language: str
    subject: str | None
    text: str | None
    html: str | None
    """None: made from the text."""
    own: tuple[str, ...] = ()
    """The parts that are the org's."""
    updated_by: str | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(cls, row: Row) -> Self:
        ours = BUILT_IN.get(row["language"], BUILT_IN[LANGUAGE])[row["kind"]]
        own = tuple(part for part in MAIL_PARTS if row[part] is not None)
        parts = {part: row[part] if row[part] is not None else getattr(ours, part) for part in MAIL_PARTS}
        return cls(
            row["kind"],
            row["language"],
            **parts,
            own=own,
            updated_by=row["updated_by"],
            updated_at=row["updated_at"],
        )

    @property
    def position(self) -> tuple[str, str]:
        """Where it stands in a list."""
        return self.kind, self.language

    @property
    def variables(self) -> Mapping[str, str]:
        """What the template may name, and what each is."""
        return VARIABLES[self.kind]


async def list_mail_templates(connection: Connection, org_id: str) -> list[SavedMailTemplate]:
    """Return the templates of every kind in our languages and in the org's own, by kind and language."""
    rows = await connection.fetch(_SQL.list_mail_templates, org_id, None, None)
    own = {
        (row["kind"], row["language"]): SavedMailTemplate.of(row) for row in rows if row["kind"] in VARIABLES
    }
    ours = {
        (kind, language): SavedMailTemplate(kind, language, template.subject, template.text, template.html)
        for language, templates in BUILT_IN.items()
        for kind, template in templates.items()
    }
    found = ours | own
    return [found[place] for place in sorted(found)]


async def read_mail_template(
    connection: Connection, org_id: str, kind: str, language: str
) -> SavedMailTemplate:
    """Return the template of a kind in a language; raise `Refused` if there is none."""
    known = require_kind(kind)
    rows = await connection.fetch(_SQL.list_mail_templates, org_id, known, language)
    if rows:
        return SavedMailTemplate.of(rows[0])
    if language not in BUILT_IN:
        raise Refused(_not_found(known, language))
    ours = BUILT_IN[language][known]
    return SavedMailTemplate(known, language, ours.subject, ours.text, ours.html)


async def save_mail_template(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    kind: str,
    language: str,
    template: Mapping[str, Any],
    by: str,
    now: datetime,
) -> SavedMailTemplate:
    """Save the org's parts of a template, in place of those it had; raise `Refused`, or `Invalid` with all problems."""
    known, parts = require_kind(kind), read_parts(template)
    require_language(language)
    if problems := [*_none_named(parts), *check_mail_template(known, parts)]:
        raise Invalid(problems)
    texts = (parts.subject, parts.text, parts.html)
    row = await connection.fetchrow(_SQL.put_mail_template, org_id, known, language, *texts, by, now)
    assert row is not None
    return SavedMailTemplate.of(row)


async def delete_mail_template(
    connection: Connection, org_id: str, kind: str, language: str
) -> SavedMailTemplate:
    """Delete the org's parts of a template and return them; raise `Refused` if there are none."""
    known = require_kind(kind)
    row = await connection.fetchrow(_SQL.delete_mail_template, org_id, known, language)
    if row is None:
        raise Refused(_not_found(known, language))
    return SavedMailTemplate.of(row)


async def preview_mail(
    connection: Connection,
    org_id: str,
    kind: str,
    language: str,
    template: Mapping[str, Any] | None = None,
) -> MailWords:
    """Return a mail with example values: of a template that is not saved yet, or of the saved one."""
    known = require_kind(kind)
    require_language(language)
    if template:
        parts = read_parts(template)
        if problems := check_mail_template(known, parts):
            raise Invalid(problems)
        own = {language: parts}
    else:
        rows = await connection.fetch(_SQL.list_mail_templates, org_id, known, language)
        own = {row["language"]: MailTemplate(*(row[part] for part in MAIL_PARTS)) for row in rows}
    return render_mail(known, [language], own, example_variables(known, language))


def example_variables(kind: MailKind, language: str) -> dict[str, Any]:
    """Return values for every variable of a kind of mail."""
    question = question_variables(EXAMPLE_FACTS, language, "UTC")
    line = render_mail("asked", [language], {}, question).subject
    return {
        **question,
        "org": "Acme Ltd",
        "name": "Bea",
        "link": _LINK,
        "from_user": "cara",
        "by": "ann",
        "starts": "2026-03-02 09:00 UTC",
        "ends": "2026-03-09 09:00 UTC",
        "reason": "on leave",
        "comment": "Is this the right cost center, @bea?",
        "question": "Is this the right cost center?",
        "count": 2,
        "questions": [(line, _LINK), (line, _LINK)],
    }


def require_kind(kind: str) -> MailKind:
    """Return a kind of mail; raise `Refused` for another word."""
    if kind not in VARIABLES:
        message = f"expected one of {', '.join(MAIL_KINDS)}, found `{kind}`"
        raise Refused(Rejection("NOT_FOUND", message, ("kind",), hint=did_you_mean(kind, MAIL_KINDS)))
    return cast(MailKind, kind)


def require_language(language: str) -> None:
    if not re.fullmatch(LANGUAGE_PATTERN, language):
        message = f"expected a language such as en, de or de-CH, found {language!r}"
        raise Refused(Rejection("BAD_VALUE", message, ("language",)))


def read_parts(template: Mapping[str, Any]) -> MailTemplate:
    """Return the parts of a template as it was sent; raise `Invalid` with the problems of their form."""
    unknown = islice((name for name in template if name not in MAIL_PARTS), PROBLEMS_MAX)
    problems = [
        Problem(
            "UNKNOWN_KEY",
            f"`{name}` is no part of a mail",
            (name,),
            did_you_mean(name, MAIL_PARTS) if number < HINTS_MAX else None,
        )
        for number, name in enumerate(unknown)
    ]
    for part in MAIL_PARTS:
        problems += _problems_of_part(part, template.get(part))
    if problems:
        raise Invalid(problems)
    return MailTemplate(*(template.get(part) for part in MAIL_PARTS))


def _problems_of_part(part: str, text: Any) -> list[Problem]:
    if text is None:
        return []
    if not isinstance(text, str):
        return [Problem("WRONG_TYPE", "a text was expected", (part,))]
    if len(text) > PART_CHARACTERS_MAX:
        message = f"expected at most {PART_CHARACTERS_MAX:,} characters, found {len(text):,}"
        return [Problem("TOO_LONG", message, (part,))]
    try:
        require_canonical(text)
    except NotCanonical as error:
        return [Problem(error.code, str(error), (part,))]
    return []


def _none_named(parts: MailTemplate) -> list[Problem]:
    if parts == MailTemplate():
        return [Problem("MISSING_KEY", f"expected at least one of {', '.join(MAIL_PARTS)}")]
    return []


def _not_found(kind: str, language: str) -> Rejection:
    return Rejection("NOT_FOUND", f"there is no template of {kind} in {language}", ("language",))
