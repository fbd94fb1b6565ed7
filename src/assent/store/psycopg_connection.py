"""A connection of psycopg, as the engine knows connections: with the methods, the values and the errors of asyncpg.

Only for a transaction that its owner began and ends. Statements and their arguments go to the server as asyncpg sends
them: the server says which types it expects, and values are written as those. psycopg's own settings, such as row
factories and adapters, are neither used nor changed.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg
import orjson

from assent.store.connection import encode_json
from assent.store.loop_thread import run_in_waiting_thread
from assent.store.queries import load_queries

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

_SQL: Final = load_queries("assent.store", "store.sql")

TYPES_KEPT_MAX: Final = 2_000
"""Statements whose types are known without asking the server; ours are a few hundred."""
_BUILT_IN_BELOW: Final = 10_000
"""Ids of types below this are the same in every database."""

_TEXTS: Final = frozenset({18, 19, 25, 1042, 1043, 705})
_JSON, _JSONB, _BYTES, _BOOL, _INTERVAL, _TIMESTAMPTZ = 114, 3802, 17, 16, 1186, 1184
_NUL: Final = "\0"


class PsycopgConnection:
    """A psycopg connection, blocking or asynchronous, with the methods of asyncpg that the engine and its steps use."""

    def __init__(self, connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
        import psycopg  # noqa: PLC0415 - optional: the extra `psycopg`

        self._psycopg = connection
        self._pgconn = connection.pgconn
        self._blocks = isinstance(connection, psycopg.Connection)
        self._savepoints = 0
        self._loaders: dict[int, Load] = {}
        """Type → how its values are read, of types of this database. Not kept for longer: a migration changes them."""

    def is_in_transaction(self) -> bool:
        from psycopg.pq import TransactionStatus  # noqa: PLC0415

        return self._pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    async def begin_if_automatic(self) -> None:
        """Begin the transaction that psycopg would begin with the next statement; with autocommit there is none."""
        if self._pgconn.pipeline_status:
            raise ValueError(
                "Expected a connection outside of pipeline mode; end the pipeline before the block."
            )
        connection: Any = self._psycopg
        if self.is_in_transaction() or connection.autocommit:
            return
        if self._blocks:
            await run_in_waiting_thread(lambda: connection.execute("SELECT 1"))
        else:
            await connection.execute("SELECT 1")

    async def fetch(self, query: str, *args: object) -> "list[PsycopgRow]":
        """Return the rows of a statement."""
        result = await self._run(query, args)
        if not result.nfields:
            return []
        return _rows_of(result, await self._loaders_of(result))

    async def fetchrow(self, query: str, *args: object) -> "PsycopgRow | None":
        """Return the first row of a statement, or None."""
        rows = await self.fetch(query, *args)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: object, column: int = 0) -> Any:
        """Return a value of the first row of a statement, or None."""
        row = await self.fetchrow(query, *args)
        return None if row is None else row[column]

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement, or several without arguments; return the server's word for what was done."""
        if args:
            result = await self._run(query, args)
        else:
            results = await self._send(lambda: self._pgconn.send_query(query.encode()), query)
            result = results[-1]
        return (result.command_status or b"").decode()

    async def executemany(self, query: str, args: Iterable[Sequence[object]]) -> None:
        """Run a statement for each sequence of arguments."""
        for each in args:
            await self._run(query, each)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Open a savepoint: what is raised in it undoes what was done in it, and nothing else."""
        self._savepoints += 1
        name = f"assent_{self._savepoints}"
        await self.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            await self.execute(f"ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}")
            raise
        await self.execute(f"RELEASE SAVEPOINT {name}")

    async def _run(self, query: str, args: Sequence[object]) -> "PGresult":
        statement = query.encode()
        types = _known_types.get(statement) or await self._ask_for_types(statement, query)
        if len(types) != len(args):
            raise asyncpg.InterfaceError(f"the statement takes {len(types)} arguments, found {len(args)}")
        written = [
            _write(value, oid, place) for place, (value, oid) in enumerate(zip(args, types, strict=True), 1)
        ]
        values, formats = [each[0] for each in written], [each[1] for each in written]
        results = await self._send(
            lambda: self._pgconn.send_query_params(statement, values, types, formats, result_format=1), query
        )
        return results[-1]

    async def _ask_for_types(self, statement: bytes, query: str) -> tuple[int, ...]:
        await self._send(lambda: self._pgconn.send_prepare(b"", statement), query)
        (found,) = await self._send(lambda: self._pgconn.send_describe_prepared(b""), query)
        types = tuple(found.param_type(place) for place in range(found.nparams))
        if all(oid < _BUILT_IN_BELOW for oid in types) and len(_known_types) < TYPES_KEPT_MAX:
            _known_types[statement] = types
        return types

    async def _loaders_of(self, result: "PGresult") -> "dict[int, Load]":
        """Return how the values of columns are read whose types are not PostgreSQL's own."""
        types = {result.ftype(place) for place in range(result.nfields)}
        foreign = [oid for oid in types if oid >= _BUILT_IN_BELOW]
        if asked := [oid for oid in foreign if oid not in self._loaders]:
            self._loaders |= dict.fromkeys(asked, bytes)
            for row in await self.fetch(_SQL.read_types, asked):
                if row["is_label"]:
                    self._loaders[row["id"]] = _load_label
                elif row["columns"] is not None:
                    self._loaders[row["id"]] = _row_loader(row["columns"], is_array=row["is_array"])
        return {oid: self._loaders[oid] for oid in foreign}

    async def _send(self, send: Callable[[], None], query: str) -> "list[PGresult]":
        """Send a message and return the server's results; raise its error as asyncpg does."""
        import psycopg  # noqa: PLC0415
        from psycopg import generators  # noqa: PLC0415

        connection: Any = self._psycopg

        def exchange() -> Any:
            with connection.lock:
                send()
                return connection.wait(generators.execute(self._pgconn))

        try:
            if self._blocks:
                results = await run_in_waiting_thread(exchange)
            else:
                async with connection.lock:
                    send()
                    results = await connection.wait(generators.execute(self._pgconn))
        except psycopg.Error as error:
            raise asyncpg.InterfaceError(f"The connection failed: {error}") from error
        for result in results:
            _raise_error(result, query)
        found: list[PGresult] = results
        return found


Load: TypeAlias = Callable[[Any], Any]
"""Reads the binary form of a value."""

_known_types: Final[dict[bytes, tuple[int, ...]]] = {}
"""Statement → the types of its arguments; only of statements whose types are those of every database."""


class PsycopgRow(Mapping[str, Any]):
    """A row, by column and by place; like asyncpg's, it iterates over its values."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: Sequence[Any]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, column: Any, /) -> Any:
        return self._values[self._places[column] if isinstance(column, str) else column]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, column: object) -> bool:
        return column in self._places

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        return f"<{' '.join(f'{name}={value!r}' for name, value in self.items())}>"

    def keys(self) -> Any:
        return self._places.keys()

    def values(self) -> Any:
        return iter(self._values)

    def items(self) -> Any:
        return [(name, self._values[place]) for name, place in self._places.items()]


@dataclass(frozen=True, slots=True)
class _Adaptation:
    """How psycopg reads values for us, whatever the application has registered with it."""

    adapters: Any
    connection: None = None


@cache
def _adaptation() -> _Adaptation:
    import psycopg  # noqa: PLC0415
    from psycopg import postgres  # noqa: PLC0415
    from psycopg.adapt import AdaptersMap  # noqa: PLC0415
    from psycopg.types.array import register_all_arrays  # noqa: PLC0415
    from psycopg.types.json import set_json_loads  # noqa: PLC0415

    adaptation: Any = _Adaptation(AdaptersMap(types=psycopg.adapters.types))
    postgres.register_default_adapters(adaptation)
    register_all_arrays(adaptation)
    set_json_loads(orjson.loads, adaptation)
    found: _Adaptation = adaptation
    return found


def _reader() -> Any:
    from psycopg.adapt import Transformer  # noqa: PLC0415

    return Transformer(_adaptation())


def _rows_of(result: "PGresult", loaders: "Mapping[int, Load]") -> list[PsycopgRow]:
    reader = _reader()
    reader.set_pgresult(result)
    places = {(result.fname(place) or b"").decode(): place for place in range(result.nfields)}
    own = {place: loaders[oid] for place in range(result.nfields) if (oid := result.ftype(place)) in loaders}

    def make(values: Sequence[Any]) -> PsycopgRow:
        if own:
            values = [
                own[place](value) if place in own and value is not None else value
                for place, value in enumerate(values)
            ]
        return PsycopgRow(places, values)

    rows: list[PsycopgRow] = reader.load_rows(0, result.ntuples, make)
    return rows


def _load_label(data: Any) -> str:
    return bytes(data).decode()


def _row_loader(columns: Sequence[str], *, is_array: bool) -> "Load":
    """Return what reads the binary form of a row, or of an array of rows."""
    places = {name: place for place, name in enumerate(columns)}

    def load(data: Any) -> Any:
        reader = _reader()
        if is_array:
            return [None if one is None else _load_row(one, places, reader) for one in _elements(bytes(data))]
        return _load_row(bytes(data), places, reader)

    return load


def _elements(data: bytes) -> Iterator[bytes | None]:
    dimensions, _, _ = _ARRAY.unpack_from(data)
    if not dimensions:
        return
    (count, _), at = _DIMENSION.unpack_from(data, _ARRAY.size), _ARRAY.size + _DIMENSION.size
    for _ in range(count):
        (size,) = _INT.unpack_from(data, at)
        at += _INT.size
        yield None if size < 0 else data[at : at + size]
        at += max(size, 0)


def _load_row(data: bytes, places: Mapping[str, int], reader: Any) -> PsycopgRow:
    (count,), at = _INT.unpack_from(data), _INT.size
    values = []
    for _ in range(count):
        oid, size = _FIELD.unpack_from(data, at)
        at += _FIELD.size
        values.append(None if size < 0 else reader.get_loader(oid, _BINARY).load(data[at : at + size]))
        at += max(size, 0)
    return PsycopgRow(places, values)


_ARRAY: Final = Struct("!iii")
"""Dimensions, whether there are nulls, and the type of the elements."""
_DIMENSION: Final = Struct("!ii")
"""How many elements, and the number of the first."""
_FIELD: Final = Struct("!Ii")
_INT: Final = Struct("!i")
_BINARY: Final = 1


def _raise_error(result: "PGresult", query: str) -> None:
    from psycopg.pq import DiagnosticField, ExecStatus  # noqa: PLC0415

    if result.status not in (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE):
        return
    fields = {}
    for field in DiagnosticField:
        if (value := result.error_field(field)) is not None:
            fields[chr(field)] = value.decode(errors="replace")
    raise asyncpg.PostgresError.new(fields, query)


def _write(value: object, oid: int, place: int) -> tuple[bytes | None, int]:
    """Return an argument as the type that the server expects, and whether in its binary form."""
    try:
        if value is None:
            return None, 0
        if oid == _JSONB:
            return b"\x01" + encode_json(value), 1
        if oid == _JSON:
            return encode_json(value), 1
        if oid in _TEXTS:
            return _require_text(value).encode(), 1
        if oid == _BYTES:
            return bytes(value), 1  # type: ignore[call-overload]
        element = _element_of(oid)
        text = _array(value, element) if element else _text(value, oid)
        if _NUL in text:  # libpq would end the argument there
            raise asyncpg.CharacterNotInRepertoireError('invalid byte sequence for encoding "UTF8": 0x00')
        return text.encode(), 0
    except (TypeError, ValueError, AttributeError) as error:
        raise asyncpg.DataError(f"invalid input for query argument ${place}: {error}") from error


@cache
def _element_of(oid: int) -> int:
    """Return the type of an array's elements; 0 for what is no array."""
    import psycopg  # noqa: PLC0415

    info = psycopg.adapters.types.get(oid)
    return info.oid if info is not None and info.array_oid == oid else 0


def _array(value: object, element: int) -> str:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"a sequence was expected, found {type(value).__name__}")
    return "{" + ",".join("NULL" if one is None else _quoted(_text(one, element)) for one in value) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(value: object, oid: int) -> str:
    """Return a value as the server reads a literal of the type."""
    if (write := _LITERALS.get(oid)) is not None:
        return write(value)
    if isinstance(value, str | list | tuple | dict):
        # Of a type that is not in the lists, such as an enumeration; the server reads it, or says what it expects.
        return _require_text(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected str, found {type(value).__name__}")
    return value


def _interval(value: timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


_LITERALS: Final[dict[int, Callable[[Any], str]]] = {
    **dict.fromkeys(_TEXTS, _require_text),
    **dict.fromkeys((_JSON, _JSONB), lambda value: encode_json(value).decode()),
    _BYTES: lambda value: f"\\x{bytes(value).hex()}",
    _BOOL: lambda value: "t" if value else "f",
    _INTERVAL: _interval,
    _TIMESTAMPTZ: lambda value: value.astimezone(UTC).isoformat(),
}
"""Type → how a value is written for it, where Python's own way is not the server's."""
