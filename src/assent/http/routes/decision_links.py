"""The pages behind links in mails: one shows what would be decided, and its form decides. `/decide/{token}`

GET never decides, for scanners of mail open every link. Both check everything again: the token, the setting of the org,
the member, the request and its content; the decision itself goes through the same command as every other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import Path, Request
from starlette.responses import HTMLResponse

from assent.approvals.requests import ApprovalDetails, is_link_used, read_request, use_link_if_unused
from assent.effects.decision_links import DecisionLink
from assent.http.auth.admission import count_request
from assent.http.auth.callers import member_key
from assent.http.context import Services, services_of
from assent.http.fields import TEXT_LENGTH_MAX
from assent.http.refusals import count_refusal
from assent.http.routing import Admission, Router
from assent.kernel.entities import read_actor
from assent.language.mails import LANGUAGE, moment_text
from assent.model.actor import Actor, Origin
from assent.model.contract import Contract, FieldType, currency_of
from assent.model.money import figure_text, money_text
from assent.model.mutation import Refused, Rejection, without_attachments
from assent.people.orgs import LANGUAGE_SETTING, LINKS_SETTING, read_org
from assent.people.preferences import read_preferences
from assent.refusals import status_of
from assent.store.caller_transaction import CallerDatabase
from assent.store.commit import CommitProof
from assent.store.database import Connection

router = Router(include_in_schema=False)

CHANNEL: Final = "mail link"
"""How the audit log names the way of these decisions."""
ANSWERS: Final = ("approved", "rejected")
FORM_BYTES_MAX: Final = 16_384
REASON_CHARACTERS_MAX: Final = TEXT_LENGTH_MAX
FIELDS_MAX: Final = 50
VALUE_CHARACTERS_MAX: Final = 300

TokenPath = Annotated[str, Path(max_length=2_000)]

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-robots-tag": "noindex, nofollow, noarchive",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "title": "Decide",
        "asked_by": "Requested by",
        "version": "Version",
        "due": "Due",
        "state": "State",
        "attachments": "Attachments",
        "as": "You decide as",
        "effect": "Your decision is recorded for exactly this version and cannot be taken back here.",
        "reason": "Reason",
        "approve": "Approve",
        "reject": "Reject",
        "approved": "You have approved this. Thank you.",
        "rejected": "You have rejected this. Thank you.",
        "gone": "This link does not hold any more.",
        "gone_why": "The question was decided, changed or withdrawn, or the link has been used or is too old. "
        "Your inbox shows what waits for you.",
        "refused": "This could not be decided here.",
        "refused_why": "Open the question in your inbox. The reason:",
        "busy": "Too many requests. Try again in a minute.",
    },
    "de": {
        "title": "Entscheiden",
        "asked_by": "Angefragt von",
        "version": "Version",
        "due": "Fällig",
        "state": "Zustand",
        "attachments": "Anhänge",
        "as": "Sie entscheiden als",
        "effect": "Ihre Entscheidung gilt für genau diese Version und kann hier nicht zurückgenommen werden.",
        "reason": "Begründung",
        "approve": "Genehmigen",
        "reject": "Ablehnen",
        "approved": "Sie haben genehmigt. Danke.",
        "rejected": "Sie haben abgelehnt. Danke.",
        "gone": "Dieser Link gilt nicht mehr.",
        "gone_why": "Die Frage wurde entschieden, geändert oder zurückgezogen, oder der Link wurde benutzt oder ist zu "
        "alt. Ihr Eingang zeigt, was auf Sie wartet.",
        "refused": "Das konnte hier nicht entschieden werden.",
        "refused_why": "Öffnen Sie die Frage in Ihrem Eingang. Der Grund:",
        "busy": "Zu viele Anfragen. Versuchen Sie es in einer Minute wieder.",
    },
}

GONE: Final = Rejection("APPROVAL_DECIDED", "the link does not hold any more")
_GONE_CODES: Final = frozenset(
    (
        "APPROVAL_DECIDED",
        "APPROVAL_VOID",
        "WORKFLOW_NOT_ACTIVE",
        "TOKEN_EXPIRED",
        "TOKEN_REFUSED",
        "NOT_FOUND",
    )
)
"""Codes of links that lead nowhere: the page does not say which of them it is."""


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """A question as the person behind a link may decide it now."""

    link: DecisionLink
    actor: Actor
    details: ApprovalDetails
    language: str
    time_zone: str


async def _admit(request: Request) -> None:
    """Refuse links beyond the rate of failed sign-ins of an address, before anything is read."""
    services = services_of(request)
    if wait_s := services.sign_in_throttle.wait_s(_place(request), None):
        count_refusal("rate", "sign_ins")
        raise services.rates.refusal("sign_ins", wait_s)


_ADMISSION: Final = Admission(_admit)


@router.unsigned("/decide/{token}", method="GET", admission=_ADMISSION)
async def show_question(request: Request, token: TokenPath) -> HTMLResponse:
    """Show what would be decided; nothing is written, however often it is opened."""
    services = services_of(request)
    try:
        link = _link_of(request, services, token)
        async with services.database.transaction(link.org_id, read_only=True) as connection:
            question = await _find(connection, link)
    except Refused as refused:
        return _sorry(refused.rejection, LANGUAGE)
    return _page(_form(question, services.app.registry.contracts), question.language)


@router.unsigned("/decide/{token}", admission=_ADMISSION)
async def decide_by_link(request: Request, token: TokenPath) -> HTMLResponse:
    """Decide, once, with everything checked again in the transaction of the decision."""
    services = services_of(request)
    language = LANGUAGE
    try:
        link = _link_of(request, services, token)
        answer, reason = _read_form(await request.body())
        found = await _decide(services, request, link, answer, reason)
        language = found.language
    except Refused as refused:
        return _sorry(refused.rejection, language)
    return _page(f"<p>{_words(language)[answer]}</p>", language)


def _link_of(request: Request, services: Services, token: str) -> DecisionLink:
    """Return what a token allows; raise `Refused`. A token that is none of ours counts as a failed sign-in."""
    link = services.links.read(token, services.database.clock.now()) if services.links is not None else None
    if isinstance(link, DecisionLink):
        count_request(services, link.org_id, member_key(link.user_id), "workflows")
        return link
    rejection = link or Rejection("TOKEN_REFUSED", "there are no links in mails here")
    if rejection.code == "TOKEN_REFUSED":
        services.sign_in_throttle.refused(_place(request), None, rejection)
    raise Refused(rejection)


async def _find(connection: Connection, link: DecisionLink) -> LinkedQuestion:
    """Return the question of a link; raise `Refused` where the link does not hold any more."""
    org = await read_org(connection, link.org_id)
    actor = await read_actor(connection, link.org_id, link.user_id)
    details = await read_request(connection, link.org_id, link.request_id)
    if org.settings.get(LINKS_SETTING) is not True or actor is None or details is None:
        raise Refused(GONE)
    request = details.request
    is_asked = any(seat.user_id == link.user_id and seat.status == "open" for seat in request.seats)
    if request.status != "pending" or request.content != link.content or not is_asked:
        raise Refused(GONE)
    if await is_link_used(connection, link.org_id, link.request_id, link.user_id):
        raise Refused(GONE)
    preferences = await read_preferences(connection, link.org_id, link.user_id)
    if not preferences.decides_by_mail:
        raise Refused(GONE)
    wanted = (preferences.language, org.settings.get(LANGUAGE_SETTING), LANGUAGE)
    language = next(one for one in wanted if isinstance(one, str) and one in _WORDS)
    return LinkedQuestion(link, actor, details, language, preferences.time_zone)


async def _decide(
    services: Services, request: Request, link: DecisionLink, answer: str, reason: str | None
) -> LinkedQuestion:
    """Use the link up and decide, in one transaction: a decision that is refused leaves the link as it was."""
    runtime, proof = services.runtime.via(Origin(CHANNEL, _place(request), reason)), CommitProof()

    async def use_and_decide(connection: Connection) -> LinkedQuestion:
        question = await _find(connection, link)
        if not await use_link_if_unused(connection, link.org_id, link.request_id, link.user_id):
            raise Refused(GONE)
        joined = CallerDatabase(services.database, connection, link.org_id)
        commands = runtime.org(link.org_id, question.actor).on(joined)
        await commands.approvals.decide(link.request_id, answer, reason=reason)
        proof.audit_id = next(iter(joined.audit_ids), None)
        return question

    return await services.database.run(use_and_decide, org_id=link.org_id, proof=proof)


def _read_form(body: bytes) -> tuple[str, str | None]:
    """Return the answer and the reason; raise `Refused` for anything but one of our two buttons."""
    try:
        if len(body) > FORM_BYTES_MAX:
            raise ValueError(len(body))
        fields = parse_qs(body.decode(), max_num_fields=5, strict_parsing=True, errors="strict")
        (answer,) = fields["answer"]
        (reason,) = fields.get("reason") or [""]
    except (ValueError, KeyError):
        raise Refused(Rejection("BAD_VALUE", "expected the form of the page", ("answer",))) from None
    if answer not in ANSWERS or "\x00" in reason or len(reason) > REASON_CHARACTERS_MAX:
        raise Refused(Rejection("BAD_VALUE", f"expected {' or '.join(ANSWERS)}", ("answer",)))
    return answer, reason.strip() or None


def _form(question: LinkedQuestion, contracts: Mapping[str, Contract]) -> str:
    words, request = _words(question.language), question.details.request
    data, attachments = without_attachments(question.details.snapshot or {})
    facts = [
        (words["asked_by"], request.requested_by),
        (words["version"], str(request.entity_version) if request.entity_id else None),
        (words["due"], moment_text(request.due_at, question.time_zone) if request.due_at else None),
        (words["attachments"], str(len(attachments)) if attachments else None),
        (words["as"], question.link.user_id),
    ]
    figure = figure_text(request.figure, request.currency, question.language) if request.currency else None
    title = " – ".join(text for text in (request.title or request.entity_type, figure) if text)
    snapshot = _snapshot(data, contracts.get(request.entity_type or ""), question.language)
    return (
        f"<h1>{escape(request.node_name or request.node_id)}</h1>\n<p><strong>{escape(title)}</strong></p>\n"
        f"{_table(facts)}{_table(snapshot)}<p>{words['effect']}</p>\n"
        '<form method="post">\n'
        f'<p><label for="reason">{words["reason"]}</label><br>\n'
        f'<textarea id="reason" name="reason" rows="3" cols="40" maxlength="{REASON_CHARACTERS_MAX}"></textarea></p>\n'
        f'<p><button type="submit" name="answer" value="approved">{words["approve"]}</button>\n'
        f'<button type="submit" name="answer" value="rejected">{words["reject"]}</button></p>\n</form>'
    )


def _snapshot(
    data: Mapping[str, Any], contract: Contract | None, language: str
) -> list[tuple[str, str | None]]:
    """Return the content of exactly the version that is to be approved, by the labels of its contract."""
    names = [name for name in (contract.fields if contract else data) if data.get(name) is not None]
    return [(_label(name, contract), _text(name, data, contract, language)) for name in names[:FIELDS_MAX]]


def _label(name: str, contract: Contract | None) -> str:
    found = contract.fields[name].label if contract is not None else None
    return found or name.replace("_", " ").capitalize()


def _text(name: str, data: Mapping[str, Any], contract: Contract | None, language: str) -> str:
    value = data[name]
    if contract is not None and contract.fields[name].type is FieldType.MONEY and isinstance(value, int):
        return money_text(value, currency_of(contract.fields, name, data), language)
    text = str(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"


def _table(rows: Sequence[tuple[str, str | None]]) -> str:
    lines = [
        f'<tr><th scope="row" align="left">{escape(name)}</th><td>{escape(text)}</td></tr>\n'
        for name, text in rows
        if text
    ]
    return f"<table>\n{''.join(lines)}</table>\n" if lines else ""


def _sorry(rejection: Rejection, language: str) -> HTMLResponse:
    words = _words(language)
    if rejection.code == "TOO_MANY_REQUESTS":
        return _page(f"<p>{words['busy']}</p>", language, status=429)
    if rejection.code in _GONE_CODES:
        return _page(f"<h1>{words['gone']}</h1>\n<p>{words['gone_why']}</p>", language, status=410)
    why = f"{words['refused_why']} {escape(rejection.message)}"
    return _page(f"<h1>{words['refused']}</h1>\n<p>{why}</p>", language, status=status_of(rejection.code))


def _words(language: str) -> Mapping[str, str]:
    return _WORDS.get(language, _WORDS[LANGUAGE])


def _page(content: str, language: str, *, status: int = 200) -> HTMLResponse:
    html = (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex, nofollow">\n'
        f"<title>{_words(language)['title']}</title>\n</head>\n<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )
    return HTMLResponse(html, status, headers=_HEADERS)


def _place(request: Request) -> str | None:
    return request.client.host if request.client else None
