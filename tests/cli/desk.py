"""Somebody at a desk: the command line in one database, with its environment set."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from typer.testing import CliRunner, Result

from assent.cli.main import app
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.people.api_keys import create_api_key
from assent.store.database import Database
from tests.world import ORG

ROOT = Path(__file__).parents[2]
ASSENT = Path(sys.executable).parent / "assent"
APP = "tests.cli.application:app"


class Desk:
    """Runs commands as one person; `code` is the exit code that is expected; none: any."""

    named: tuple[str, ...] = ("--org", ORG)
    """The org, for commands whose option has no variable."""

    def __init__(self, url: str, application: str = APP) -> None:
        self.environment = {
            "ASSENT_DATABASE_URL": url,
            "ASSENT_APP": application,
            "ASSENT_ORG": ORG,
            "COLUMNS": "200",
        }

    async def run(
        self, *arguments: object, user: str = "ann", code: int | None = 0, text: str | None = None
    ) -> Result:
        result = await self.attempt(*arguments, user=user, text=text)
        assert code in (None, result.exit_code), result.output
        return result

    async def attempt(self, *arguments: object, user: str = "ann", text: str | None = None) -> Result:
        """Run a command in this process, in a thread because it has an event loop of its own; any exit code will do."""
        environment = await self.environment_of(user)
        words = [str(argument) for argument in arguments]
        result = await asyncio.to_thread(CliRunner().invoke, app, words, input=text, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    async def environment_of(self, user: str) -> dict[str, str | None]:
        return {**self.environment, "ASSENT_USER": user}

    async def json(self, *arguments: object, user: str = "ann", code: int = 0) -> Any:
        """The one JSON document that a command prints."""
        result = await self.run(*arguments, "--json", user=user, code=code)
        assert result.stderr == ""
        return json.loads(result.stdout)

    async def items(self, *arguments: object, user: str = "ann") -> list[Any]:
        """The items of a list that is complete."""
        page = await self.json(*arguments, user=user)
        assert page.keys() == {"items", "next"}
        assert page["next"] is None
        found: list[Any] = page["items"]
        return found

    async def refusal(self, *arguments: object, user: str = "ann") -> Any:
        """Why a command did nothing: one JSON document on standard error, and nothing on standard output."""
        result = await self.run(*arguments, "--json", user=user, code=1)
        assert result.stdout == ""
        return json.loads(result.stderr)

    async def shell(self, *arguments: object, user: str = "ann") -> subprocess.CompletedProcess[str]:
        """In a process of its own."""
        environment = {**os.environ, **self.environment, "ASSENT_USER": user}
        command = [str(ASSENT), *map(str, arguments)]
        return await asyncio.to_thread(
            subprocess.run,
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    async def terminal(self, *arguments: object, user: str = "ann", columns: int = 120) -> str:
        """Everything that a terminal of this width gets to show, colours included."""
        environment = {**os.environ, **self.environment, "ASSENT_USER": user, "TERM": "xterm"}
        environment["COLUMNS"] = str(columns)
        environment.pop("NO_COLOR", None)
        command = [str(ASSENT), *map(str, arguments)]
        return await asyncio.to_thread(_shown_on_a_terminal, command, environment)


class RemoteDesk(Desk):
    """Runs the same commands on a server, each person with a key; there is no database at this desk."""

    named = ()

    def __init__(self, url: str, database: Database) -> None:
        super().__init__("")
        self.url = url
        self.database = database
        self.keys: dict[str, str] = {}

    async def key_of(self, user: str) -> str:
        if user not in self.keys:
            async with self.database.transaction(ORG) as connection:
                now = self.database.clock.now()
                self.keys[user], _ = await create_api_key(connection, ORG, user, "desk", now, scopes=("*",))
        return self.keys[user]

    async def environment_of(self, user: str) -> dict[str, str | None]:
        gone = ("ASSENT_DATABASE_URL", "ASSENT_APP", "ASSENT_ORG", "ASSENT_USER", "ASSENT_PROFILE")
        server = {"ASSENT_SERVER": self.url, "ASSENT_KEY": await self.key_of(user), "COLUMNS": "200"}
        return {**dict.fromkeys(gone), **server}


@asynccontextmanager
async def serving(door: FastAPI, settings: HttpSettings) -> AsyncIterator[str]:
    """Serve an application on a socket of this machine; the result is its address."""
    listening = listen("127.0.0.1", 0)
    served = Serving(door, listening, settings)
    task = asyncio.create_task(served.run())
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        served.stop()
        await task
        listening.close()


def _shown_on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while more := _read(ours):
            shown += more
        assert process.wait(30) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4_096)
    except OSError:  # the other end is closed
        return b""


def lines(result: Result | subprocess.CompletedProcess[str]) -> list[list[str]]:
    """The words of each line, as a person sees columns."""
    return [line.split() for line in result.stdout.splitlines()]
