"""The words of the mails that Assent itself writes: their kinds, the variables of each, and templates. Pure.

An org's template stands in place of ours, part by part. Values are escaped in HTML, and a subject is one line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache
from html import escape
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from assent.language.functions import ExpressionTooCostly
from assent.language.program import compile_expression
from assent.language.templates import (
    Hole,
    as_text,
    check_template,
    compile_template,
    parse_template,
)
from assent.language.types import INTEGER, TEXT, Scope
from assent.model.money import figure_text
from assent.model.problems import Problem

MailKind = Literal[
    "asked", "reminded", "escalated", "delegated", "mentioned", "questioned", "answered", "digest"
]
MailPart = Literal["subject", "text", "html"]
MAIL_PARTS: Final[tuple[MailPart, ...]] = ("subject", "text", "html")

LANGUAGE: Final = "en"
"""The language of those who chose none, in orgs that chose none."""
LANGUAGE_PATTERN: Final = r"[a-z]{2,3}(-[A-Z]{2})?"
TIME_ZONE: Final = "UTC"
SUBJECT_CHARACTERS_MAX: Final = 200
SHORT_CHARACTERS_MAX: Final = 100
"""How much of the document's name a subject shows, so that the person and the time after it are seen."""
QUESTIONS_MAX: Final = 50
"""How many questions a digest names; its number counts all."""

_EVERY_MAIL: Final[Mapping[str, str]] = {
    "org": "the name of the org",
    "name": "the name of the person who gets the mail",
    "link": "where to go on; nothing where no public address is set",
}
_QUESTION: Final[Mapping[str, str]] = {
    **_EVERY_MAIL,
    "what": "the step and the document",
    "what_short": "the same, cut to 100 characters",
    "step": "the step that asks",
    "title": "the title of the document",
    "figure": "its figure, if that is money with a currency",
    "requested_by": "who requested it; nothing for those who asked themselves",
    "due": "by when, in the person's time zone",
    "version": "the version to decide; nothing for a form",
}
VARIABLES: Final[Mapping[MailKind, Mapping[str, str]]] = {
    "asked": _QUESTION,
    "reminded": _QUESTION,
    "escalated": _QUESTION,
    "delegated": {
        **_EVERY_MAIL,
        "from_user": "who is stood in for",
        "by": "who delegated",
        "starts": "from when, in the person's time zone",
        "ends": "until when; nothing if until it is revoked",
        "reason": "why",
    },
    "mentioned": {
        **_EVERY_MAIL,
        "by": "who wrote the comment",
        "what": "what the comment is about",
        "comment": "its text",
    },
    "questioned": {
        **_EVERY_MAIL,
        "by": "the approver who asks",
        "what": "the step and the document",
        "comment": "the question",
    },
    "answered": {
        **_EVERY_MAIL,
        "by": "who answered",
        "what": "the step and the document",
        "question": "the question",
        "comment": "the answer",
    },
    "digest": {
        **_EVERY_MAIL,
        "count": "how many questions wait",
        "questions": "one line for each question with its link; in HTML a list",
    },
}
"""Kind → the variables that its templates may name, and what each is."""
MAIL_KINDS: Final[tuple[MailKind, ...]] = tuple(VARIABLES)


class Markup(str):
    """HTML of our own, which a template takes as it is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """Some parts of a mail, as an author wrote them; a part that is None is made from the others or is ours."""

    subject: str | None = None
    text: str | None = None
    html: str | None = None


@dataclass(frozen=True, slots=True)
class MailWords:
    subject: str
    text: str
    html: str


def _question(begin: str, decide: str, rest: str) -> str:
    task = f"if(version == null, {_FILL_IN[decide]}, {_DECIDE[decide]})"
    return f"{begin} {{{task}}}.{rest}"


_SUBJECT: Final = (
    "{{what_short}}{{if(figure == null && requested_by == null && due == null, '', concat(' (', join([figure, "
    "if(requested_by == null, null, concat('{by} ', requested_by)), if(due == null, null, concat('{due} ', due))], "
    "', '), ')'))}}"
)
_DECIDE: Final = {
    "en": "concat('to decide ', what, ', version ', version)",
    "de": "concat('über ', what, ', Version ', version, ' zu entscheiden')",
}
_FILL_IN: Final = {"en": "concat('to fill in ', what)", "de": "concat(what, ' auszufüllen')"}
_REST: Final = {
    "en": (
        "{if(figure == null, '', concat(' It is about ', figure, '.'))}"
        "{if(requested_by == null, '', concat(' It was requested by ', requested_by, '.'))}"
        "{if(due == null, '', concat(' It is due ', due, '.'))}"
        "{if(link == null, '', concat('\\n\\nOpen it: ', link))}"
    ),
    "de": (
        "{if(figure == null, '', concat(' Es geht um ', figure, '.'))}"
        "{if(requested_by == null, '', concat(' Angefragt von ', requested_by, '.'))}"
        "{if(due == null, '', concat(' Fällig ', due, '.'))}"
        "{if(link == null, '', concat('\\n\\nÖffnen: ', link))}"
    ),
}
_DECIDE_HERE: Final = {"en": "Decide without signing in", "de": "Ohne Anmeldung entscheiden"}
DECIDE_LINK: Final = "decide_link"
"""Where a mail is answered without signing in. No template names it: it decides for the person who opens it."""
_SUBJECTS: Final = {
    "en": _SUBJECT.format(by="requested by", due="due"),
    "de": _SUBJECT.format(by="angefragt von", due="fällig"),
}

BUILT_IN: Final[Mapping[str, Mapping[MailKind, MailTemplate]]] = {
    "en": {
        "asked": MailTemplate(_SUBJECTS["en"], _question("You are asked", "en", _REST["en"])),
        "reminded": MailTemplate(_SUBJECTS["en"], _question("You are still asked", "en", _REST["en"])),
        "escalated": MailTemplate(
            _SUBJECTS["en"], _question("No answer has arrived, so you are asked", "en", _REST["en"])
        ),
        "delegated": MailTemplate(
            "You stand in for {from_user}",
            "{by} has asked you to decide in place of {from_user} from {starts}"
            "{if(ends == null, '', concat(' until ', ends))}."
            "{if(reason == null, '', concat(' Reason: ', reason))}"
            "{if(link == null, '', concat('\\n\\nOpen your inbox: ', link))}",
        ),
        "mentioned": MailTemplate(
            "{by} mentioned you: {what}",
            "{by} mentioned you in a comment about {what}:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nOpen it: ', link))}",
        ),
        "questioned": MailTemplate(
            "{by} has a question: {what}",
            "Before they decide {what}, {by} asks you:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nAnswer: ', link))}",
        ),
        "answered": MailTemplate(
            "{by} answered: {what}",
            "You asked about {what}:\n\n{question}\n\n{by} answered:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nDecide: ', link))}",
        ),
        "digest": MailTemplate(
            "{if(count == 1, 'One question waits for you', concat(count, ' questions wait for you'))}",
            "{if(count == 1, 'One question waits', concat(count, ' questions wait'))} for your answer:\n\n{questions}"
            "{if(link == null, '', concat('\\n\\nOpen your inbox: ', link))}",
        ),
    },
    "de": {
        "asked": MailTemplate(_SUBJECTS["de"], _question("Sie sind gebeten,", "de", _REST["de"])),
        "reminded": MailTemplate(_SUBJECTS["de"], _question("Sie sind noch gebeten,", "de", _REST["de"])),
        "escalated": MailTemplate(
            _SUBJECTS["de"], _question("Es kam keine Antwort. Darum sind Sie gebeten,", "de", _REST["de"])
        ),
        "delegated": MailTemplate(
            "Sie vertreten {from_user}",
            "{by} hat Sie gebeten, ab {starts}{if(ends == null, '', concat(' bis ', ends))} an Stelle von {from_user} "
            "zu entscheiden.{if(reason == null, '', concat(' Grund: ', reason))}"
            "{if(link == null, '', concat('\\n\\nZum Eingang: ', link))}",
        ),
        "mentioned": MailTemplate(
            "{by} hat Sie erwähnt: {what}",
            "{by} hat Sie in einem Kommentar zu {what} erwähnt:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nÖffnen: ', link))}",
        ),
        "questioned": MailTemplate(
            "{by} hat eine Frage: {what}",
            "Vor der Entscheidung über {what} fragt {by} Sie:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nAntworten: ', link))}",
        ),
        "answered": MailTemplate(
            "{by} hat geantwortet: {what}",
            "Sie haben zu {what} gefragt:\n\n{question}\n\n{by} hat geantwortet:\n\n{comment}"
            "{if(link == null, '', concat('\\n\\nEntscheiden: ', link))}",
        ),
        "digest": MailTemplate(
            "{if(count == 1, 'Eine Frage wartet auf Sie', concat(count, ' Fragen warten auf Sie'))}",
            "{if(count == 1, 'Eine Frage wartet', concat(count, ' Fragen warten'))} auf Ihre Antwort:\n\n{questions}"
            "{if(link == null, '', concat('\\n\\nZum Eingang: ', link))}",
        ),
    },
}
"""Language → kind → our template. Its HTML is made from its text."""

Templates = Mapping[str, MailTemplate]
"""Language → what an org has in place of ours, of one kind."""


def scope_of_mail(kind: MailKind) -> Scope:
    """Return the variables of a kind of mail; another name is a problem."""
    return Scope({name: INTEGER if name == "count" else TEXT for name in VARIABLES[kind]})


def check_mail_template(kind: MailKind, template: MailTemplate) -> list[Problem]:
    """Return everything that is wrong with a template, each problem at its part."""
    problems = []
    for part, text in _parts(template):
        if part == "subject" and ("\n" in text or "\r" in text):
            problems.append(Problem("BAD_VALUE", "a subject is one line", (part,)))
        if not text.strip():
            problems.append(Problem("BLANK", "expected a text with visible characters", (part,)))
        parsed, found = parse_template(text)
        found = found if parsed is None else check_template(parsed, scope_of_mail(kind))
        problems += [problem.under(part) for problem in found]
    return problems


def _parts(template: MailTemplate) -> Iterator[tuple[MailPart, str]]:
    for part in MAIL_PARTS:
        text = getattr(template, part)
        if text is not None:
            yield part, text


def render_mail(
    kind: MailKind, languages: Sequence[str], own: Templates, variables: Mapping[str, Any]
) -> MailWords:
    """Return a mail in the first of these languages for which there is a template; ours in English at last.

    A template of the org that does not render any more, such as one that names a variable of an earlier release, is
    left out.
    """
    for language in (*languages, LANGUAGE):
        if (template := own.get(language)) is not None and not check_mail_template(kind, template):
            try:
                return _render(kind, template, language, languages, variables)
            except ExpressionTooCostly:
                continue
        if language in BUILT_IN:
            return _render(kind, MailTemplate(), language, languages, variables)
    raise AssertionError("there is a template in English")


def _render(
    kind: MailKind,
    template: MailTemplate,
    language: str,
    languages: Sequence[str],
    variables: Mapping[str, Any],
) -> MailWords:
    own_language = next(one for one in (language, *languages, LANGUAGE) if one in BUILT_IN)
    ours = BUILT_IN[own_language][kind]
    values = {name: variables.get(name) for name in VARIABLES[kind]}
    subject = one_line(_plain(kind, template.subject or ours.subject or "", values))
    if "questions" in values and not isinstance(values["questions"], str | None):
        items = values["questions"]
        values["questions"] = "\n".join(
            f"- {words}\n  {link}" if link else f"- {words}" for words, link in items
        )
        marked = {**values, "questions": Markup(f"<ul>{''.join(map(_list_item, items))}</ul>")}
    else:
        marked = values
    text = template.text or ours.text or ""
    plain = _plain(kind, text, values)
    if (decide_link := variables.get(DECIDE_LINK)) is not None:
        # Behind all that an author wrote, and in HTML of ours: theirs could send it on, in the address of an image.
        here, link = _DECIDE_HERE[own_language], escape(decide_link)
        html = f'{_html_of_text(kind, text, marked)}\n<p>{here}: <a href="{link}">{link}</a></p>'
        return MailWords(subject, f"{plain}\n\n{here}: {decide_link}", _page(html, language))
    html = (
        _html(kind, template.html, marked) if template.html is not None else _html_of_text(kind, text, marked)
    )
    return MailWords(subject, plain, _page(html, language))


def _list_item(item: tuple[str, str | None]) -> str:
    words, link = item
    return f'<li><a href="{escape(link)}">{escape(words)}</a></li>' if link else f"<li>{escape(words)}</li>"


@lru_cache(maxsize=500)
def _program(kind: MailKind, text: str) -> Any:
    parsed, problems = parse_template(text)
    if parsed is None:
        raise ValueError(problems)
    return compile_template(parsed, scope_of_mail(kind))


def _plain(kind: MailKind, text: str, values: Mapping[str, Any]) -> str:
    return as_text(_program(kind, text).value(values))


@lru_cache(maxsize=500)
def _pieces(kind: MailKind, text: str) -> tuple[Any, ...]:
    parsed, problems = parse_template(text)
    if parsed is None:
        raise ValueError(problems)
    scope = scope_of_mail(kind)
    return tuple(
        compile_expression(part.expression, scope) if isinstance(part, Hole) else part
        for part in parsed.parts
    )


def _html(kind: MailKind, text: str, values: Mapping[str, Any]) -> str:
    """Return an author's HTML with every value escaped."""
    return "".join(
        piece if isinstance(piece, str) else _escaped(piece.value(values)) for piece in _pieces(kind, text)
    )


def _escaped(value: Any) -> str:
    return value if isinstance(value, Markup) else escape(as_text(value))


_LINK_MARK: Final = "\ue000"
"""What stands for the link until the text around it is escaped: a character for private use, which no address has."""


def _html_of_text(kind: MailKind, text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a mail as HTML: paragraphs, and its link as a link."""
    link = escape(values.get("link") or "")
    marked = {**values, "link": _LINK_MARK} if link else values
    pieces = _pieces(kind, text)
    found = "".join(escape(one) if isinstance(one, str) else _escaped(one.value(marked)) for one in pieces)
    found = found.replace(_LINK_MARK, f'<a href="{link}">{link}</a>') if link else found
    paragraphs = (part if part.startswith("<ul>") else f"<p>{part}</p>" for part in _paragraphs(found))
    return "\n".join(paragraphs)


def _paragraphs(text: str) -> Iterator[str]:
    for part in re.split(r"\n\n|(<ul>.*?</ul>)", text):
        if part and part.strip():
            yield part.strip().replace("\n", "<br>\n")


def _page(html: str, language: str) -> str:
    if re.match(r"\s*<(!doctype|html)\b", html, re.IGNORECASE):
        return html
    return f'<!doctype html>\n<html lang="{language}">\n<body>\n{html}\n</body>\n</html>\n'


def one_line(text: str) -> str:
    """Return a text as a header may hold it: one line without control characters."""
    visible = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(visible.split())[:SUBJECT_CHARACTERS_MAX]


def shortened(text: str) -> str:
    """Return as much of a document's name as a subject shows."""
    return text if len(text) <= SHORT_CHARACTERS_MAX else f"{text[: SHORT_CHARACTERS_MAX - 1]}…"


def moment_text(at: datetime, time_zone: str) -> str:
    """Return a time as people in a time zone read it, with the name of the zone; UTC for a zone that is not known."""
    try:
        zone: tzinfo = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = UTC
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


def question_variables(facts: Mapping[str, Any], language: str, time_zone: str) -> dict[str, Any]:
    """Return the variables of a question from its facts, as the payload of its message has them."""
    due_at, version = facts.get("due_at"), facts.get("version")
    currency = facts.get("currency")
    money = Decimal(facts["figure"]) if currency and facts.get("figure") is not None else None
    return {
        "what": facts["what"],
        "what_short": shortened(facts["what"]),
        "step": facts.get("step"),
        "title": facts.get("title"),
        "figure": figure_text(money, currency, language),
        "requested_by": facts.get("requested_by"),
        "due": moment_text(datetime.fromisoformat(due_at), time_zone) if due_at else None,
        "version": str(version) if version is not None else None,
    }
