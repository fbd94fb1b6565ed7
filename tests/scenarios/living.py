"""Scenarios, each lived through once in a run of tests, whichever test and whichever worker asks first."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from assent.store.embedded.file_lock import FileLock
from assent.testing import FoundScenario, Sandbox, find_scenarios
from tests.scenarios.application import app
from tests.scenarios.remains import what_remains
from tests.scenarios.templates import NAMES, workflow_of
from tests.scenarios.ways import ways_gone

SCENARIOS = find_scenarios([Path(__file__).parent])


@dataclass(frozen=True, slots=True)
class Life:
    """How a scenario went."""

    passed: bool
    report: str
    remains: list[str]
    """What is wrong with what it left behind."""
    gone: dict[str, list[str]]
    """Template → the ways that it went through it, where it ran as it is shipped."""


@dataclass(frozen=True, slots=True)
class Lives:
    """The scenarios of a run; what was lived through is written down in the folder that all workers share."""

    folder: Path
    server: str

    async def of(self, found: FoundScenario) -> Life:
        name = hashlib.sha256(f"{found.file}: {found.name}".encode()).hexdigest()[:16]
        lock, file = self.folder / f"{name}.lock", self.folder / f"{name}.json"
        lock.touch()
        with FileLock.exclusive(lock):
            if not file.exists():
                file.write_text(json.dumps(asdict(await self._live(found))), encoding="utf-8")
        return Life(**json.loads(file.read_text(encoding="utf-8")))

    async def _live(self, scenario: FoundScenario) -> Life:
        remains: list[str] = []
        gone: dict[str, list[str]] = {}

        async def look(sandbox: Sandbox) -> None:
            remains.extend(await what_remains(sandbox))
            shipped = {workflow_of(name).key: name for name in NAMES}
            found = await ways_gone(sandbox, map(workflow_of, NAMES))
            gone.update({shipped[key]: sorted(ways) for key, ways in found.items()})

        outcome = await scenario.run(app, server=self.server, look=look)
        return Life(outcome.passed, outcome.text(), remains, gone)
