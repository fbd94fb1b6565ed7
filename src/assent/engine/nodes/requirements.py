"""The node that waits for documents: it evaluates its conditions, asks for what is missing, and rests until it came.

Requirements are rows of their own, which people and results change; each change wakes the instances that wait. The
rows of an instance are in `World.requirements`, and what a step does to them is written with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from assent.engine.inputs import Input, RequestDecided, RequirementChanged, TimerDue
from assent.engine.nodes.base import (
    Creation,
    Done,
    Failure,
    Handler,
    Rest,
    Stay,
    deadline,
    timed_out,
    verb_variables,
)
from assent.language import Scope
from assent.language.built_in_verbs import Solicitation, solicitation_of
from assent.language.verb_syntax import VerbCall, parse_verb
from assent.model.document import (
    MAX_ATTEMPTS,
    DocumentGroup,
    DocumentRequirement,
    SubjectMissing,
    WantedDocument,
    is_hopeless,
    is_met,
    lists_of,
    people_of,
    places_of,
    required_state_of,
    unmet,
    wanted_of,
)
from assent.model.graph import Node, NodeKind
from assent.model.ids import derived_id, new_id
from assent.model.job import Effect
from assent.model.mutation import Rejection
from assent.model.outside_request import REQUEST_KEY, ClosedRequest, OutsideRequest
from assent.model.requirements import ITEM, names_item
from assent.model.terms import seconds_of

if TYPE_CHECKING:
    from assent.engine.visit import Visit

SUBJECT_MISSING: Final = "SUBJECT_MISSING"
DOCUMENTS_BLOCKED: Final = "DOCUMENTS_BLOCKED"
RESOLUTION_FAILED: Final = "RESOLUTION_FAILED"
ASK_AGAIN_AFTER_DAYS: Final = 7
"""How long a request waits for documents before they are asked for again, if the node does not say."""
LANGUAGE_SETTING: Final = "language"
"""The setting of an org with the language of messages to its clients."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Why the node looks at its documents."""

    incoming: Input | None = None
    """None when the token arrives."""

    @property
    def by_time(self) -> bool:
        return isinstance(self.incoming, TimerDue)

    def completes(self, request_id: UUID | None) -> bool:
        """Return whether a request has all its results now: what it was to bring and did not, it will not bring."""
        incoming = self.incoming
        return (
            isinstance(incoming, RequestDecided)
            and incoming.status == "completed"
            and incoming.request_id == request_id
        )


class RequirementsNode(Handler):
    """Waits for documents."""

    kind = NodeKind.REQUIREMENTS

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._conditions: Sequence[Mapping[str, Any]] = node.config["requirements"]
        self._blocker: Mapping[str, Any] = node.config.get("on_fail", {}).get("blocker", {})
        self._call = _call_of(self._blocker)
        self._again = self._length("ask_again_after") or timedelta(days=ASK_AGAIN_AFTER_DAYS)
        self._due, self._remind = self._length("due"), self._length("remind")
        self._lists = lists_of(self._conditions)
        self._asks_each = names_item(self._blocker.get("resolution", ""))

    def _length(self, name: str) -> timedelta | None:
        said = self._blocker.get(name)
        return timedelta(seconds=seconds_of(said)) if said else None

    def enter(self, visit: "Visit") -> Done | Rest | Failure:
        found = self._look(visit, Wake())
        if isinstance(found, Done | Failure):
            return found
        due = self._next_time(visit, found.waiting, deadline(visit))
        return Rest(resume_at=due, output=found.output, creates=found.creates)

    def resume(self, visit: "Visit", incoming: Input) -> Done | Stay | Failure | Rejection:
        if not isinstance(incoming, TimerDue | RequestDecided | RequirementChanged):
            return super().resume(visit, incoming)  # type: ignore[return-value]
        end = deadline(visit, visit.token.step_at)
        if isinstance(incoming, TimerDue) and end is not None and end <= visit.now:
            return timed_out()
        found = self._look(visit, Wake(incoming))
        if isinstance(found, Done | Failure):
            return found
        return Stay(self._next_time(visit, found.waiting, end), creates=found.creates)

    def must_look(self, visit: "Visit") -> bool:
        """Return whether the people of its lists are others now than when it looked at its documents last."""
        if not self._lists:
            return False
        wanted, rows = self._wanted(visit), visit.world.requirements
        if isinstance(wanted, Failure):
            return True
        is_new = any(place not in rows or rows[place].status == "missing" for place in places_of(wanted))
        return is_new or bool(self._left(visit, wanted)) or is_met(wanted, rows, visit.now)

    def blocking(self, visit: "Visit") -> list[DocumentRequirement]:
        """Return the requirements that the step waits for."""
        wanted = self._wanted(visit)
        if isinstance(wanted, Failure):
            return []
        rows = visit.world.requirements
        places = dict.fromkeys(one.place for one in unmet(wanted, rows, visit.now))
        return [rows[place] for place in places if place in rows]

    def _look(self, visit: "Visit", wake: Wake) -> "Done | Failure | PendingDocuments":
        wanted = self._wanted(visit)
        if isinstance(wanted, Failure):
            return wanted
        rows, now = visit.world.requirements, visit.now
        if is_met(wanted, rows, now):
            return Done(output=_collected(wanted, visit))
        missing = list(unmet(wanted, rows, now))
        self._require(visit, missing)
        if is_met(wanted, rows, now):
            return Done(output=_collected(wanted, visit))  # its review has begun, and that was enough
        solicitations = self._solicitations(visit)
        if isinstance(solicitations, Failure):
            return solicitations
        overdue = {one.place for one in missing if self._is_to_be_asked(visit, rows[one.place], wake)}
        lost = frozenset(place for place in overdue | _rejected(visit, missing) if self._is_lost(rows[place]))
        if is_hopeless(wanted, rows, now, lost):
            names = ", ".join(
                f"{kind} of {subject} ({rows[subject, kind].status})" for subject, kind in sorted(lost)
            )
            message = f"`{self.node.name}` cannot get {names}: it takes a person"
            return Failure(DOCUMENTS_BLOCKED, message)
        creates = self._drop(visit, wanted)
        for one in solicitations:
            creates += self._ask(visit, one, sorted(overdue - lost), missing, wake)
            creates += self._send_reminder(visit, one, missing)
        waiting = [rows[one.place] for one in missing]
        return PendingDocuments(waiting, creates)

    def _wanted(self, visit: "Visit") -> DocumentGroup | Failure:
        try:
            return wanted_of(self._conditions, verb_variables(visit))
        except SubjectMissing as missing:
            return Failure(SUBJECT_MISSING, f"`{self.node.name}`: {missing}")

    def _require(self, visit: "Visit", missing: Sequence[WantedDocument]) -> None:
        """Create the requirements that are not there, ask more of those that are, and let lapse what is too old."""
        for one in missing:
            row, state = visit.world.requirements.get(one.place), required_state_of(one.min_state)
            if row is None:
                instance = visit.instance
                row = DocumentRequirement(
                    instance.org_id,
                    new_id(visit.now),
                    one.subject,
                    one.doc_type,
                    visit.now,
                    instance_id=instance.id,
                    partition_id=instance.partition_id,
                    required_state=state,
                    max_attempts=self._blocker.get("max_attempts", MAX_ATTEMPTS),
                    due_date=(visit.now + self._due).date() if self._due else None,
                )
                visit.world.change(row)
                continue
            if (more := row.requiring(state)) is not row:
                visit.world.change(row := more)
            if row.status == "received" and row.required_state == "verified":
                visit.world.change(row := row.begin_review())
            if row.status == "verified":
                visit.world.change(row.expire())

    def _is_to_be_asked(self, visit: "Visit", row: DocumentRequirement, wake: Wake) -> bool:
        """Return whether a round of asking would be due now, rounds left or not."""
        if self._call is None:
            return False
        if row.status in ("missing", "expired"):
            return True
        if row.status == "rejected":
            return row.can_be_asked_again
        if row.status != "requested":
            return False
        if wake.completes(row.request_id) or (wake.incoming is None and not row.request_is_open):
            return True
        return wake.by_time and self._time_of(row) <= visit.now

    def _is_lost(self, row: DocumentRequirement) -> bool:
        """Return whether no round of ours can bring a document that came wrong, or did not come."""
        if row.status == "rejected" and row.rejection is not None and not row.rejection.retryable:
            return True
        return self._call is not None and not row.has_attempts

    def _solicitations(self, visit: "Visit") -> list[Solicitation] | Failure:
        """Return what the resolution asks for: once, or once for each person of the lists."""
        if self._call is None:
            return []
        variables = verb_variables(visit)
        people = [one for name in self._lists for one in people_of(name, variables)]
        bindings = [{**variables, ITEM: one} for one in people] if self._asks_each else [variables]
        found: dict[str, Solicitation] = {}
        for bound in bindings:
            solicitation, problems = solicitation_of(self._call, bound)
            if solicitation is None:
                return Failure(RESOLUTION_FAILED, "; ".join(map(str, problems)))
            found.setdefault(solicitation.subject, solicitation)
        return list(found.values())

    def _left(self, visit: "Visit", wanted: DocumentGroup) -> list[DocumentRequirement]:
        """Return what this step has asked of people who are on its lists no longer."""
        if not self._lists:
            return []
        places = set(places_of(wanted))
        rows = (row for row in visit.world.requirements.values() if row.place not in places)
        return [row for row in rows if row.status == "requested" and _is_open_here(visit, row)]

    def _drop(self, visit: "Visit", wanted: DocumentGroup) -> tuple[Creation, ...]:
        """Ask no more for documents of people who have left the lists: what they have sent stays on record."""
        left = self._left(visit, wanted)
        requests = sorted({row.request_id for row in left if row.request_id is not None})
        for row in left:
            visit.world.change(row.reset())
        org_id, now = visit.instance.org_id, visit.now
        return tuple(ClosedRequest(org_id, one, "no longer required", now) for one in requests)

    def _ask(
        self,
        visit: "Visit",
        solicitation: Solicitation,
        overdue: Sequence[tuple[str, str]],
        missing: Sequence[WantedDocument],
        wake: Wake,
    ) -> tuple[Creation, ...]:
        """Open one request for what is due, which takes the place of the one that is open."""
        world, now = visit.world, visit.now
        missing = [one for one in missing if one.subject == solicitation.subject]
        asked = [
            place
            for place in dict.fromkeys(overdue)
            if place[0] == solicitation.subject and place[1] in solicitation.doc_types
        ]
        if not asked:
            return ()
        salt = str(wake.incoming.id) if wake.incoming is not None else ""
        salt += f" {solicitation.subject}" if self._asks_each else ""
        request_id = derived_id("outside_request", f"{visit.key}{salt}")
        before = _open_requests(visit, missing)
        step_id = visit.token.step_id or visit.step_id
        for place in asked:
            world.change(world.requirements[place].ask(request_id, step_id, now))
        carried = [one.place for one in missing if world.requirements[one.place].request_id in before]
        carried = [
            place for place in dict.fromkeys(carried) if world.requirements[place].status == "requested"
        ]
        for place in carried:
            world.change(world.requirements[place].carry(request_id, step_id))
        rows = [world.requirements[place] for place in (*asked, *carried)]
        request = self._request(visit, solicitation, request_id, rows)
        closed = (ClosedRequest(visit.instance.org_id, one, "asked again", now) for one in sorted(before))
        return (*closed, request, *messages_of(request, solicitation, is_reminder=False))

    def _remind_at(self, row: DocumentRequirement) -> datetime | None:
        """Return when the party is reminded of a document that it was asked for before that."""
        if self._remind is None or row.due_date is None or row.reminded_at is not None:
            return None
        at = datetime.combine(row.due_date, time(), UTC) - self._remind
        is_asked = row.status == "requested" and row.request_is_open
        return at if is_asked and row.requested_at is not None and row.requested_at <= at else None

    def _send_reminder(
        self, visit: "Visit", solicitation: Solicitation, missing: Sequence[WantedDocument]
    ) -> tuple[Creation, ...]:
        """Remind the party of what it was asked for, once, some time before the due date."""
        world, now = visit.world, visit.now
        places = dict.fromkeys(one.place for one in missing if one.subject == solicitation.subject)
        due = [row for row in (world.requirements[place] for place in places) if self._is_reminded(row, now)]
        if not due:
            return ()
        for row in due:
            world.change(row.remind(now))
        request_id = due[0].request_id
        assert request_id is not None
        request = self._request(visit, solicitation, request_id, due)
        return messages_of(request, solicitation, is_reminder=True)

    def _is_reminded(self, row: DocumentRequirement, now: datetime) -> bool:
        at = self._remind_at(row)
        return at is not None and at <= now

    def _request(
        self,
        visit: "Visit",
        solicitation: Solicitation,
        request_id: UUID,
        rows: Sequence[DocumentRequirement],
    ) -> OutsideRequest:
        instance, node = visit.instance, self.node
        is_whole = len(rows) == len(solicitation.doc_types)
        language = visit.variables["org"].get(LANGUAGE_SETTING)
        documents = [describe_asked(row, language if isinstance(language, str) else None) for row in rows]
        return OutsideRequest(
            org_id=instance.org_id,
            id=request_id,
            instance_id=instance.id,
            step_id=visit.token.step_id or visit.step_id,
            node_id=node.id,
            token_id=visit.token.id,
            name=f"{visit.plan.workflow.key}.{node.name}",
            created_at=visit.now,
            arguments={
                "blocker": self._blocker["type"],
                "verb": solicitation.verb,
                "subject": solicitation.subject,
                "documents": documents,
            },
            expected=self._blocker.get("expected_count", len(rows)) if is_whole else len(rows),
            partition_id=instance.partition_id,
            entity_type=instance.entity_type,
            entity_id=instance.entity_id,
        )

    def _time_of(self, row: DocumentRequirement) -> datetime:
        return (row.requested_at or row.created_at) + self._again

    def _next_time(
        self, visit: "Visit", waiting: Sequence[DocumentRequirement], end: datetime | None
    ) -> datetime | None:
        rows = (visit.world.requirements[row.place] for row in waiting)
        asked = [row for row in rows if row.status == "requested" and self._call is not None]
        times = [at for row in asked for at in (self._time_of(row), self._remind_at(row))]
        return min([at for at in (*times, end) if at is not None], default=None)


class PendingDocuments:
    """What a step that rests has done, and what it waits for."""

    def __init__(self, waiting: list[DocumentRequirement], creates: tuple[Creation, ...]) -> None:
        self.waiting = waiting
        self.creates = creates

    @property
    def output(self) -> dict[str, Any]:
        return {"missing": [f"{row.doc_type} of {row.subject}" for row in self.waiting]}


def _call_of(blocker: Mapping[str, Any]) -> VerbCall | None:
    if not blocker:
        return None
    call, problems = parse_verb(blocker["resolution"])
    if call is None:
        raise ValueError(f"a published workflow holds a verb that is none: {problems}")
    return call


def _rejected(visit: "Visit", missing: Sequence[WantedDocument]) -> set[tuple[str, str]]:
    rows = visit.world.requirements
    return {one.place for one in missing if rows[one.place].status == "rejected"}


def _open_requests(visit: "Visit", missing: Sequence[WantedDocument]) -> set[UUID]:
    """Return the requests of this step whose results can still come."""
    rows = (visit.world.requirements[one.place] for one in missing)
    return {row.request_id for row in rows if row.request_id is not None and _is_open_here(visit, row)}


def _is_open_here(visit: "Visit", row: DocumentRequirement) -> bool:
    step_id = visit.token.step_id
    return row.request_is_open and step_id is not None and row.request_step_id == step_id


def describe_asked(row: DocumentRequirement, language: str | None) -> dict[str, Any]:
    """Return a document as its request names it, with what was wrong with the last one."""
    asked: dict[str, Any] = {
        "requirement_id": str(row.id),
        "doc_type": row.doc_type,
        "attempt": row.attempt_count,
    }
    if row.due_date is not None:
        asked["due_date"] = row.due_date.isoformat()
    if row.rejection is not None:
        asked |= {"rejection_code": row.rejection.code, "message": row.rejection.message(language)}
    return asked


def messages_of(
    request: OutsideRequest, solicitation: Solicitation, *, is_reminder: bool
) -> tuple[Effect, ...]:
    """Return the e-mail and the webhook that ask for the documents of a request, if the verb names addresses."""
    about = {"request": str(request.id), "reminder": True} if is_reminder else {"request": str(request.id)}
    found: list[Effect] = []
    if solicitation.notify is not None:
        words = _letter(request, is_reminder=is_reminder)
        letter = {"to": solicitation.notify, **words, "upload": str(request.id)}
        found.append(Effect("email", letter, identity={**letter, **about}))
    if solicitation.webhook is not None:
        shown = {key: request.arguments[key] for key in ("subject", "documents")}
        body = {"event": "reminder" if is_reminder else "asked", "name": request.name, **about, **shown}
        call = {"url": solicitation.webhook, "method": "POST", "body": body}
        found.append(Effect("webhook", call | {REQUEST_KEY: str(request.id)}))
    return tuple(found)


def _letter(request: OutsideRequest, *, is_reminder: bool) -> dict[str, str]:
    documents = request.arguments["documents"]
    lines = [
        f"{one['doc_type']}: {one['message']}" if "message" in one else one["doc_type"] for one in documents
    ]
    if due := min((one["due_date"] for one in documents if "due_date" in one), default=None):
        lines.append(f"Please send them until {due}.")
    subject = "Documents that we need from you"
    return {"subject": f"Reminder: {subject}" if is_reminder else subject, "text": "\n".join(lines)}


def _collected(wanted: DocumentGroup, visit: "Visit") -> dict[str, Any]:
    """Return the documents with which the step was satisfied, and whose work they are, for its record."""
    rows = visit.world.requirements
    found = [rows[place] for place in places_of(wanted) if place in rows]
    shown = [
        {
            "doc_type": row.doc_type,
            "subject": row.subject,
            "status": row.status,
            "version": str(row.version_id) if row.version_id else None,
        }
        for row in found
    ]
    people = sorted({person for row in found for person in row.contributors})
    return {"documents": shown, **({"contributors": people} if people else {})}
