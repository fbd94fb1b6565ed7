"""A server that commands call instead of the database: its address and key, its profile, and the calls.

A command names the route of its capability once. Without a server it runs the same capability in this process, and
prints the same body. Nothing here loads a database driver, the runtime or the compiler.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID, uuid4

import typer

if TYPE_CHECKING:
    from assent.cli.options import GivenId
    from assent.model.mutation import Rejection

TIMEOUT_S: Final = 30.0
"""How long an answer may take; what takes longer on the server is asked for again under the same key."""
ATTEMPTS_MAX: Final = 3
PAUSE_S: Final = 0.5
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LOST: Final = frozenset({502, 504})
"""What a proxy answers when it has lost the server's answer."""


class JsonBody(dict[str, Any]):
    """A body as JSON, whose values are attributes too; what a command prints is made from it, wherever it came from."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(name) from None
        return _moment(value) if name == "at" or name.endswith(("_at", "since")) else value


def _moment(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def seen(text: str | bytes) -> Any:
    """Return a JSON document as it is printed and shown."""
    return json.loads(text, object_hook=JsonBody)


@dataclass(frozen=True, slots=True)
class ServerCall:
    """What a command asks of a server: one request."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    """The file that is the body; it is read as it is sent."""


def _route(
    method: str, parts: tuple[object, ...], body: Any, query: Mapping[str, Any], **headers: Any
) -> ServerCall:
    path = "/".join(quote(_text(part), safe="") for part in parts)
    asked = {name: _plain(value) for name, value in query.items() if value not in (None, False)}
    sent = {name.replace("_", "-"): str(value) for name, value in headers.items() if value is not None}
    return ServerCall(method, f"/api/{path}", asked, _plain(body), sent)


def get(*parts: object, **query: Any) -> ServerCall:
    """Return the request for what is read at a path below `/api/`; a parameter without a value is left out."""
    return _route("GET", parts, None, query)


def post(*parts: object, body: Any = None, key: str | None = None, if_match: str | None = None) -> ServerCall:
    """Return the request for a command; `key` is its `Idempotency-Key`, a new one without it."""
    return _route("POST", parts, body, {}, Idempotency_Key=key, If_Match=if_match)


def put(*parts: object, body: Any, if_match: str | None = None) -> ServerCall:
    return _route("PUT", parts, body, {}, If_Match=if_match)


def put_file(
    *parts: object, file: Path, content_type: str, if_match: str | None = None, **query: Any
) -> ServerCall:
    """Return the request for a command whose body is a file."""
    return replace(_route("PUT", parts, None, query, Content_Type=content_type, If_Match=if_match), file=file)


def patch(*parts: object, body: Any, if_match: str | None = None) -> ServerCall:
    return _route("PATCH", parts, body, {}, If_Match=if_match)


def delete(*parts: object) -> ServerCall:
    return _route("DELETE", parts, None, {})


def if_match(version: int | str | None) -> str:
    """Return the header of a version or a tag that was read; of any, where none is named."""
    return f'"{version}"' if version is not None else "*"


def _text(part: object) -> str:
    first = getattr(part, "first", None)
    if first is None:
        return str(part)
    if first != getattr(part, "last", None):
        text = getattr(part, "text", "")
        raise typer.BadParameter(
            f"expected a whole id for a server, found {text!r}: it looks up no beginnings"
        )
    return str(first)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without members of objects that are None where they are options."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    return getattr(value, "value", value)


def _text_of(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def given(**values: Any) -> dict[str, Any]:
    """Return the body of the values that were given."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the key that commands sign in with. The org and the member are those of the key."""

    url: str
    key: str = field(repr=False)

    def ask(self, route: ServerCall) -> Any:
        """Return the body of the reply, None where there is none; raise `Refused` for every other.

        A command has an `Idempotency-Key`: it is sent again under that key where its answer was lost, and takes effect
        once. Where every answer was lost, its outcome is unknown.
        """
        # The command line of httpx, which nothing here uses, imports a highlighter: a fifth of the CPU of a command.
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
        import httpx

        is_read = route.method == "GET"
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json", **route.headers}
        if route.body is not None:
            headers["Content-Type"] = "application/json"
        if not is_read:
            headers.setdefault("Idempotency-Key", str(uuid4()))
        sent = False
        # Proxies of the environment are for other machines: to this one the key would go through them in the clear.
        trusts = urlsplit(self.url).scheme == "https"
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=trusts) as client:
            for attempt in range(ATTEMPTS_MAX):
                if attempt:
                    time.sleep(PAUSE_S * attempt)
                try:
                    reply = self._send(client, route, headers)
                except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
                    if sent:
                        continue
                    raise self._away(error) from None
                except httpx.TransportError:
                    sent = True
                    continue
                if reply.status_code in _LOST:
                    sent = True
                    continue
                return _body_of(reply, self.url)
        raise self._lost(is_read)

    def _send(self, client: Any, route: ServerCall, headers: Mapping[str, str]) -> Any:
        about = {"params": route.query, "headers": headers}
        if route.file is None:
            body = _text_of(route.body) if route.body is not None else None
            return client.request(route.method, route.path, content=body, **about)
        with route.file.open("rb") as content:
            return client.request(route.method, route.path, content=content, **about)

    def save(self, route: ServerCall, path: Path | None) -> "SavedFile":
        """Write what a server sends to a path that is not there yet, else to one of the file's own name here."""
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
        import httpx

        trusts = urlsplit(self.url).scheme == "https"
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=trusts) as client:
            try:
                with client.stream(route.method, route.path, headers=headers) as reply:
                    if not reply.is_success:
                        reply.read()
                        _body_of(reply, self.url)
                    return _saved(reply, path)
            except httpx.TransportError as error:
                raise self._away(error) from None

    def instance(self, given: "GivenId") -> str:
        """Return the id of an instance, or of the newest instance of the entity that an id names."""
        found = self.instance_or_entity(given)
        return found.instance or _text(given)

    def instance_or_entity(self, given: "GivenId") -> "Named":
        """Return the instance that an id names, or an entity with its newest instance.

        A key that may not read lists still commands instances by their ids.
        """
        text = _text(given)
        try:
            items = self.ask(get("instances", entity_id=text, limit=1))["items"]
        except ServerRefusal:
            items = []
        if not items:
            return Named(text)
        return Named(items[0]["id"], {"type": items[0]["entity_type"], "id": text})

    def pages(self, route: ServerCall) -> list[Any]:
        """Return the items of all pages of a list."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            query = {**route.query, "limit": 200, **({"cursor": cursor} if cursor else {})}
            page = self.ask(ServerCall(route.method, route.path, query))
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                return items

    def _away(self, error: Exception) -> "ServerRefusal":
        message = f"no connection to {self.url}: {error}"
        return ServerRefusal("UNAVAILABLE", message, hint="nothing was sent; check the address and try again")

    def _lost(self, is_read: bool) -> "ServerRefusal":
        if is_read:
            return ServerRefusal("UNAVAILABLE", f"{self.url} did not answer", hint="try again")
        message = f"the command was sent to {self.url}, and its answer was lost: its outcome is unknown"
        return ServerRefusal("OUTCOME_UNKNOWN", message, hint="read what it changes; do not repeat it")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file that was written here."""

    path: Path
    size_bytes: int
    sha256: str


def _saved(reply: Any, path: Path | None) -> SavedFile:
    """Write a reply as it comes; nothing is left of one that breaks off, or is not what its server says it is."""
    name = unquote(reply.headers.get("content-disposition", "").rpartition("UTF-8''")[2])
    target = path or Path(Path(name.replace("\\", "/")).name or "document")
    digest, size = hashlib.sha256(), 0
    with target.open("xb") as opened:
        try:
            for part in reply.iter_bytes():
                digest.update(part)
                size += len(part)
                opened.write(part)
            if reply.headers.get("etag") != f'"{digest.hexdigest()}"':
                message = "the file did not come as it was handed in"
                raise ServerRefusal("UNAVAILABLE", message, hint="try again")
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    return SavedFile(target, size, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Named:
    """What an id names: an instance, or an entity with its newest instance."""

    instance: str
    entity: Mapping[str, Any] | None = None


class ServerRefusal(Exception):
    """Why a server did nothing, or why that is unknown; `body` is the problem that it replied with."""

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, body: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.body = code, message, hint, body

    @property
    def rejection(self) -> "Rejection":
        from assent.model.mutation import Rejection
        from assent.model.problems import Problem

        problems = [
            Problem(one["code"], one["message"], tuple(one["path"]), one.get("hint"))
            for one in (self.body or {}).get("problems", ())
        ]
        path = problems[0].path if len(problems) == 1 else ()
        return Rejection(self.code, self.message, path, problems, self.hint)


def _body_of(reply: Any, url: str) -> Any:
    """Return what a server replied; raise `ServerRefusal` for a problem."""
    kind = reply.headers.get("content-type", "").partition(";")[0]
    if reply.is_success and not reply.content:
        return None  # what the key's member may not read
    if reply.is_success:
        return seen(reply.content) if kind == "application/json" else reply.text
    if kind != "application/problem+json":
        message = (
            f"expected an Assent server at {url}, found an answer {reply.status_code} of {kind or 'no type'}"
        )
        raise ServerRefusal("UNAVAILABLE", message, hint="check the address")
    found = reply.json()
    raise ServerRefusal(found["code"], found["detail"], hint=found.get("hint"), body=found)


_CURRENT: ContextVar[Server | None] = ContextVar("server", default=None)


def current_server() -> Server | None:
    """Return the server that commands call; None for the database."""
    return _CURRENT.get()


def choose_none() -> None:
    """Have this command use the database."""
    _CURRENT.set(None)


def choose_server(server: str | None, key: str | None, profile: str | None) -> None:
    """Set the server of this command: of the options, else of the environment, else of the profile in use.

    The database of `ASSENT_DATABASE_URL` goes before the profile in use, which is chosen once for all commands.
    """
    _CURRENT.set(_chosen(server, key, profile))


def _chosen(server: str | None, key: str | None, profile: str | None) -> Server | None:
    if server is not None and profile is not None:
        raise typer.BadParameter("expected --server or --profile, found both")
    if profile is None:
        server = server or os.environ.get("ASSENT_SERVER") or None
    if server is not None:
        key = key or os.environ.get("ASSENT_KEY")
        if not key:
            raise typer.BadParameter("expected a key for the server: --key or ASSENT_KEY", param_hint="--key")
        return Server(checked_url(server), checked_key(key))
    name = profile or os.environ.get("ASSENT_PROFILE") or None
    kept = read_profiles()
    if name is None and not os.environ.get("ASSENT_DATABASE_URL"):
        name = kept.current
    if name is None:
        if key:
            raise typer.BadParameter(
                "a key is for a server: expected --server or --profile", param_hint="--key"
            )
        return None
    found = kept.profiles.get(name)
    if found is None:
        known = ", ".join(sorted(kept.profiles)) or "none"
        raise typer.BadParameter(f"no profile {name!r}; there are: {known}", param_hint="--profile")
    return Server(found.url, checked_key(key)) if key else found


def checked_url(text: str) -> str:
    """Return the address of a server; raise `BadParameter` for one that would send the key in the clear."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise typer.BadParameter(f"expected https://host, found {text!r}", param_hint="--server")
    if parts.username is not None or parts.password is not None:
        raise typer.BadParameter("expected an address without a user or a password", param_hint="--server")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        message = f"expected https: the key would go to {parts.hostname} in the clear"
        raise typer.BadParameter(message, param_hint="--server")
    return text.rstrip("/")


def checked_key(text: str) -> str:
    """Return a key; raise `BadParameter`, without the key, for what no header carries."""
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise typer.BadParameter("expected a key, such as `assent keys create` prints", param_hint="--key")
    return text


@dataclass(frozen=True, slots=True)
class Profiles:
    """Servers by name, as the user's file keeps them, and the one in use."""

    profiles: Mapping[str, Server] = field(default_factory=dict)
    current: str | None = None


def profiles_file() -> Path:
    return Path(typer.get_app_dir("assent")) / "profiles.json"


def read_profiles() -> Profiles:
    """Return the profiles of the user; raise `BadParameter` for a file that others may read, or that is not ours."""
    file = profiles_file()
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise typer.BadParameter(f"expected a file of profiles: {error}") from None
    if os.name == "posix" and mode & 0o077:
        raise typer.BadParameter(f"{file} holds keys, and others may read it: run chmod 600 on it")
    try:
        found = json.loads(text)
        profiles = {name: Server(one["server"], one["key"]) for name, one in found["profiles"].items()}
        return Profiles(profiles, found["current"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise typer.BadParameter(
            f"expected profiles in {file}, as `assent profiles add` writes them"
        ) from None


def write_profiles(kept: Profiles) -> None:
    """Replace the user's file of profiles, which only the user may read."""
    file = profiles_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    profiles = {name: {"server": one.url, "key": one.key} for name, one in sorted(kept.profiles.items())}
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump({"current": kept.current, "profiles": profiles}, out, indent=2)
    beside.replace(file)
