"""Credentials in headers: they live in named secrets, and definitions only name them.

Every member of an org reads its definitions, so that what a definition says is no secret.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from assent.compiler.draft import WorkflowDraft
from assent.language import parse_template, secrets_in
from assent.model.nodes import Webhook
from assent.model.problems import Path, Problem

HIDDEN: Final = "[hidden]"

_CREDENTIAL: Final = re.compile(
    r"(.*[-_])?(authorization|authentication|auth|api[-_]?key|access[-_]?key|subscription[-_]?key|token|secret|password"
    r"|credentials?|cookie|session(-id)?|signature)",
    re.IGNORECASE,
)
"""Headers that say who calls: Authorization, X-Api-Key, Private-Token, Cookie, …"""


def is_credential(header: str) -> bool:
    return _CREDENTIAL.fullmatch(header.strip()) is not None


def check_credentials(draft: WorkflowDraft) -> WorkflowDraft:
    """Refuse credentials that are written into headers, whole or by an expression whose value would be kept."""
    problems = [
        problem.under(*draft.place(node_id))
        for node_id, declared in draft.declared.items()
        if isinstance(declared, Webhook)
        for problem in _check_headers(declared.headers)
    ]
    return draft.noting(problems)


def _check_headers(headers: Mapping[str, Any]) -> Iterator[Problem]:
    for name, text in headers.items():
        if _is_literal(name, text):
            message = f"`{name}` says who calls, and everybody of the org reads definitions"
            hint = f"keep it with `assent secrets set`, and write `{name}: {{secret.name}}`"
            yield Problem("LITERAL_CREDENTIAL", message, ("headers", name), hint)


def _is_literal(name: object, text: object) -> bool:
    if not isinstance(name, str) or not isinstance(text, str) or not is_credential(name):
        return False
    template, _ = parse_template(text)
    return template is None or not secrets_in(template)


def find_credentials(source: Any, path: Path = ()) -> Iterator[Problem]:
    """Yield the credentials in what an author is writing, right or wrong."""
    if isinstance(source, Mapping):
        headers = source.get("headers")
        if isinstance(headers, Mapping):
            yield from (problem.under(*path) for problem in _check_headers(headers))
        for key, value in source.items():
            yield from find_credentials(value, (*path, key))
    elif isinstance(source, list):
        for index, value in enumerate(source):
            yield from find_credentials(value, (*path, index))


def hide_credentials(value: Any) -> Any:
    """Return what was published before credentials had a place of their own, without them."""
    if isinstance(value, Mapping):
        return {key: _hidden_headers(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hide_credentials(item) for item in value]
    return value


def _hidden_headers(key: object, item: Any) -> Any:
    if key != "headers" or not isinstance(item, Mapping):
        return hide_credentials(item)
    return {name: HIDDEN if _is_literal(name, text) else text for name, text in item.items()}
