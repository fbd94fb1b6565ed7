"""The verbs that come with the product: `document.*`, `requirement.*` and `workflow.complete-task`.

Here is what they are called and which arguments they take; `runtime/verb_commands.py` runs them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from assent.language.verb_syntax import VerbCall
from assent.language.verbs import ArgumentSpec, ArgumentType, VerbRegistry, VerbSpec, bind_verb
from assent.model.problems import Problem

_STATUSES: Final = (
    *("missing", "requested", "received", "in_qa", "verified", "rejected", "expired", "waived"),
)


def _argument(
    name: str, description: str = "", type: ArgumentType = ArgumentType.STRING, **rest: Any
) -> ArgumentSpec:
    return ArgumentSpec(name=name, type=type, description=description, **rest)


_SUBJECT: Final = _argument("subject-entity-id", "Whose document it is.", required=True)
_ONE_SUBJECT: Final = _argument("subject-entity-id", "Only of this subject.")
_DOC_TYPE: Final = _argument("doc-type", "Such as passport.", required=True)
_INSTANCE: Final = _argument("instance-id", "The instance that requires it.", ArgumentType.UUID)
_DOCUMENT: Final = _argument("document-id", type=ArgumentType.UUID, required=True)
_VERSION: Final = _argument("version-id", "The latest, if it is not said.", ArgumentType.UUID)
_REQUIREMENT: Final = _argument("requirement-id", type=ArgumentType.UUID, required=True)
_REASON: Final = _argument("reason", required=True)
_LIMIT: Final = _argument("limit", "How many at most.", ArgumentType.INTEGER, default=50)
_VALID_TO: Final = _argument("valid-to", "The last day on which it is valid.", ArgumentType.DATE)
_ASKS: Final = (
    _argument("notify", "The e-mail address to which the request is sent; without it, none is sent."),
    _argument("webhook", "The URL to which the request is posted, with the address for its results."),
)
_SOLICIT: Final = (_SUBJECT, _DOC_TYPE, *_ASKS)
_SOLICIT_SET: Final = (_SUBJECT, _argument("doc-types", type=ArgumentType.LIST, required=True), *_ASKS)
_FOR_WHOM: Final = (
    _argument(
        "instance-id",
        "The instance that requires them; the subject alone, if it is not said.",
        ArgumentType.UUID,
    ),
)


def _verb(capability: str, description: str, *args: ArgumentSpec) -> VerbSpec:
    return VerbSpec(behavior="crud", capability=capability, description=description, args=args)


BUILT_IN: Final = VerbRegistry(
    {
        "document.create": _verb(
            "documents:write",
            "Create a document, with its first version where content is given.",
            _argument("document-type", "Such as passport.", required=True),
            _SUBJECT,
            _argument("content-type", default="application/json"),
            _argument("structured-data", "Its fields.", ArgumentType.JSON),
            _argument("blob-ref", "Where its file is."),
            _argument("requirement-id", "The requirement that it is for.", ArgumentType.UUID),
            _argument("parent-id", "The document that it belongs to.", ArgumentType.UUID),
        ),
        "document.solicit": _verb(
            "requirements:manage",
            "Ask an outside party for one document.",
            *_SOLICIT,
            *_FOR_WHOM,
        ),
        "document.solicit-set": _verb(
            "requirements:manage",
            "Ask an outside party for several documents in one request.",
            *_SOLICIT_SET,
            *_FOR_WHOM,
        ),
        "document.verify": _verb(
            "documents:review",
            "Verify a version that another handed in.",
            _DOCUMENT,
            _VERSION,
            _argument("valid-from", type=ArgumentType.DATE),
            _VALID_TO,
            _argument("reason"),
        ),
        "document.reject": _verb(
            "documents:review",
            "Reject a version that another handed in.",
            _DOCUMENT,
            _VERSION,
            _argument("code", "Such as UNREADABLE.", required=True),
            _argument("reason", "For colleagues; the client reads the message of the code."),
        ),
        "document.list": _verb(
            "documents:read",
            "List documents, newest first.",
            _ONE_SUBJECT,
            _argument("document-type", "Only of this type."),
            _argument("status", values=("pending", "in_qa", "verified", "rejected")),
            _argument("fields", "Fields that a version holds.", ArgumentType.JSON),
            _LIMIT,
        ),
        "document.find": _verb(
            "documents:read",
            "Return the newest document of a subject and a type; null where there is none.",
            _SUBJECT,
            _argument("document-type", "Such as passport.", required=True),
            _argument("status", values=("pending", "in_qa", "verified", "rejected")),
        ),
        "document.get-versions": _verb(
            "documents:read", "Return the versions of a document, the latest first.", _DOCUMENT
        ),
        "requirement.create": _verb(
            "requirements:manage",
            "Require a document of a subject, for an instance or for the subject alone.",
            _SUBJECT,
            _DOC_TYPE,
            _INSTANCE,
            _argument("required-state", values=("received", "verified"), default="verified"),
            _argument("max-attempts", "The rounds of asking.", ArgumentType.INTEGER, default=3),
            _argument("due-date", type=ArgumentType.DATE),
        ),
        "requirement.list": _verb(
            "documents:read",
            "List requirements, newest first.",
            _ONE_SUBJECT,
            _argument("doc-type", "Only of this type."),
            _argument("instance-id", "Only of this instance.", ArgumentType.UUID),
            _argument("status", values=_STATUSES),
            _argument("code", "Only those whose last rejection has this code."),
            _argument("due-before", "Only those that are due before this day.", ArgumentType.DATE),
            _LIMIT,
        ),
        "requirement.status": _verb(
            "documents:read",
            "Return a requirement with its status, its rounds and its last rejection.",
            _REQUIREMENT,
        ),
        "requirement.waive": _verb(
            "requirements:waive", "Do without a document; what waits for it goes on.", _REQUIREMENT, _REASON
        ),
        "requirement.reset": _verb(
            "requirements:manage",
            "Begin a requirement again, with all rounds of asking.",
            _REQUIREMENT,
            _REASON,
        ),
        "workflow.complete-task": _verb(
            "results:push",
            "Report what an outside party did: the results of an outside request.",
            _argument("task-id", "The outside request.", ArgumentType.UUID, required=True),
            _argument("idempotency-key", "The same again changes nothing.", required=True),
            _argument("status", values=("completed", "failed", "expired"), default="completed"),
            _argument("cargo-refs", "The versions, such as version://assent/<id>.", ArgumentType.LIST),
            _argument("doc-type", "What the sender calls them."),
            _argument("error"),
        ),
    }
)
"""The verbs by name. An application adds its own with `App.verb`, in other domains."""

DOMAINS: Final = frozenset(name.partition(".")[0] for name in BUILT_IN.verbs)
"""The domains that no application adds to."""

RESOLUTIONS: Final = VerbRegistry(
    {
        name: BUILT_IN.verbs[name].model_copy(update={"args": args})
        for name, args in (("document.solicit", _SOLICIT), ("document.solicit-set", _SOLICIT_SET))
    }
)
"""What the resolution of a blocker can call: it asks for its own instance."""


@dataclass(frozen=True, slots=True)
class Solicitation:
    """What a call asks for."""

    verb: str
    subject: str
    doc_types: tuple[str, ...]
    notify: str | None = None
    webhook: str | None = None


def solicitation_of(
    call: VerbCall, variables: Mapping[str, Any]
) -> tuple[Solicitation | None, list[Problem]]:
    """Return what a call asks for, with the values of its variables, or None and why it cannot be called."""
    bound, problems = bind_verb(call, variables, RESOLUTIONS.verbs[call.name])
    if bound is None:
        return None, problems
    types = bound.get("doc-types") or [bound["doc-type"]]
    ways = bound.get("notify"), bound.get("webhook")
    return Solicitation(call.name, bound["subject-entity-id"], tuple(dict.fromkeys(types)), *ways), []
