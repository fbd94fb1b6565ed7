"""The next release: a copy of the package with further migrations, run as processes of its own."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from assent.store.migrate import load_migrations
from tests.processes.commands import ASSENT, ROOT


@dataclass(frozen=True)
class ReleaseFolder:
    """A folder with a package of its own."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *migrations: str) -> Self:
        """Copy the present code, and add these migrations."""
        shutil.copytree(
            ROOT / "src" / "assent", folder / "assent", ignore=shutil.ignore_patterns("__pycache__")
        )
        added = folder / "assent" / "store" / "migrations"
        added.mkdir(exist_ok=True)
        for version, sql in enumerate(migrations, start=len(load_migrations()) + 1):
            (added / f"{version:04}_further.sql").write_text(sql)
        return cls(folder)

    @classmethod
    def installed(cls) -> Self:
        """The present code."""
        return cls(ROOT / "src")

    @property
    def variables(self) -> dict[str, str]:
        """What makes a process run this release instead of the installed one."""
        return {"PYTHONPATH": str(self.folder)}

    def run(self, *arguments: str, url: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this release to its end."""
        environment = {
            **os.environ,
            "ASSENT_DATABASE_URL": url,
            "COLUMNS": "200",
            **self.variables,
            **variables,
        }
        return subprocess.run(
            [ASSENT, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
