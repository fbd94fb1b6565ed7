"""Who is asked: people for all that a wave of approvals seeks, in a fixed number of statements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.approvals.candidates import Listing, look_up
from assent.approvals.chains import Chain, load_chains
from assent.approvals.picker import PeopleQuery, Picker, Question, Sought
from assent.model.approval import FoundGroup, FoundPeople, PeopleSearch
from assent.model.mutation import Rejection
from assent.people.directory import Directory, MembersDirectory
from assent.store.connect import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "candidates.sql")

APPROVERS_MAX: Final = 200
"""The people that one request asks."""


async def find_people(
    connection: Connection, directory: Directory, asked: Sequence[PeopleQuery], now: datetime
) -> list[FoundPeople | Rejection]:
    """An answer to each, in their order. A group that nobody was found for is empty: what that means, others say."""
    chains = await load_chains(connection, _chains_of(asked))
    questions = [_question(one, chains) for one in asked]
    listing = await look_up(connection, directory, _seeks_of(questions))
    contributors = await _find_contributors(connection, asked)
    questions = [_with_pools(question, listing, contributors) for question in questions]
    picker = await Picker.ready(connection, questions, now)
    source = "members" if type(directory) is MembersDirectory else None
    answers = [
        question if isinstance(question, Rejection) else replace(picker.answer(question), directory=source)
        for question in questions
    ]
    await picker.turns.keep(connection)
    return answers


def _chains_of(asked: Iterable[PeopleQuery]) -> set[tuple[str, str]]:
    return {
        (one.org_id, name)
        for one in asked
        for group in one.groups
        if group.seek.strategy == "chain"
        for name in group.seek.names
    }


def _question(asked: PeopleQuery, chains: Mapping[tuple[str, str], Chain]) -> Question | Rejection:
    sought: list[Sought] = []
    chain_id = None
    for group in asked.groups:
        if group.seek.strategy != "chain":
            sought.append(Sought(FoundGroup(group.name, (), group.mode, group.quorum), group.seek))
            continue
        name = group.seek.names[0]
        chain = chains.get((asked.org_id, name))
        if refusal := _unusable(chain, name, asked.entity_type):
            return refusal
        assert chain is not None
        chain_id = chain.id
        sought += _links(chain, asked.subject_id)
    return Question(asked, tuple(sought), chain_id)


def _unusable(chain: Chain | None, name: str, entity_type: str | None) -> Rejection | None:
    if chain is None:
        message = f"there is no active approval chain `{name}`"
    elif chain.entity_type not in (None, entity_type):
        message = f"approval chain `{name}` is for {chain.entity_type}, not for {entity_type or 'flows'}"
    else:
        return None
    return Rejection("CHAIN_NOT_FOUND", message, hint="keep one under this name, or name another in the node")


def _links(chain: Chain, subject_id: str) -> Iterable[Sought]:
    for position, step in enumerate(chain.steps, start=1):
        group = FoundGroup(step.name, (), step.mode, step.quorum, position, step.due_seconds)
        yield Sought(group, step.seek(subject_id))


def _seeks_of(questions: Iterable[Question | Rejection]) -> list[tuple[str, PeopleSearch]]:
    return [
        (question.asked.org_id, sought.seek)
        for question in questions
        if isinstance(question, Question)
        for sought in question.sought
    ]


async def _find_contributors(
    connection: Connection, asked: Iterable[PeopleQuery]
) -> dict[tuple[str, UUID], frozenset[str]]:
    entities = {(one.org_id, one.entity_id) for one in asked if one.entity_id is not None and one.separates}
    if not entities:
        return {}
    orgs, ids = map(list, zip(*sorted(entities), strict=True))
    rows = await connection.fetch(_SQL.find_contributors, orgs, ids)
    return {(row["org_id"], row["entity_id"]): frozenset(row["people"]) for row in rows}


def _with_pools(
    question: Question | Rejection,
    listing: Listing,
    contributors: Mapping[tuple[str, UUID], frozenset[str]],
) -> Question | Rejection:
    """The question with everybody who comes into consideration, or too many of them."""
    if isinstance(question, Rejection):
        return question
    asked = question.asked
    filled = [replace(s, pools=tuple(listing.pools(asked.org_id, s.seek))) for s in question.sought]
    if (count := sum(sought.people_max for sought in filled)) > APPROVERS_MAX:
        message = f"{count} people would be asked; {APPROVERS_MAX} are the most"
        return Rejection("TOO_MANY_APPROVERS", message, hint="ask a smaller role, or pick one of it")
    wrote = contributors.get((asked.org_id, asked.entity_id), frozenset()) if asked.entity_id else frozenset()
    return replace(question, sought=tuple(filled), contributors=wrote)
