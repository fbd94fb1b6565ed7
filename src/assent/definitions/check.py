"""Checking sources before they are kept: compiled beside the published contracts."""

import re
from collections.abc import Sequence

from assent.compiler.declarations import CompiledSources, DeclarationKind, compile_sources, kind_of
from assent.compiler.source import Source
from assent.definitions.views import SQL
from assent.model.canonical import JsonValue
from assent.model.parse import NAME_PATTERN
from assent.store.connection import Connection


async def published_contracts(connection: Connection, sources: Sequence[Source]) -> list[Source]:
    """The contracts that the sources speak of and do not bring, of every version, as they are published."""
    brought = {
        source.value(("contract",)) for source in sources if kind_of(source) is DeclarationKind.CONTRACT
    }
    wanted = {name for source in sources if _is_a_name(name := _about(source))} - brought
    rows = await connection.fetch(SQL.read_contracts, sorted(map(str, wanted)))
    return [
        Source(f"contract {row['key']} version {row['version']}, as published", row["contract"])
        for row in rows
    ]


def check_sources(sources: Sequence[Source], contracts: Sequence[Source]) -> CompiledSources:
    """What the sources come to beside these contracts; of the contracts alone nothing is shown."""
    found = compile_sources([*sources, *contracts])
    names = {source.name for source in sources}
    shown = tuple(one for one in found.compiled if any(source.name in names for source in one.sources))
    problems = tuple(problem for problem in found.problems if problem.source in (None, *names))
    return CompiledSources(shown, problems, found.scenarios)


def _is_a_name(found: JsonValue) -> bool:
    return isinstance(found, str) and re.fullmatch(NAME_PATTERN, found) is not None


def _about(source: Source) -> JsonValue:
    match kind_of(source):
        case DeclarationKind.PATCH:
            return source.value(("base", "entity_type"))
        case DeclarationKind.FLOW:
            return source.value(("entity",))
        case _:
            return None
