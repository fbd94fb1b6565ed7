"""Writes the types of the web's API client, from the document of the API: `make client`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from assent.http.app import bare_app
from assent.http.settings import HttpSettings

WEB = Path(__file__).parents[2] / "web"
TYPES = WEB / "src" / "api" / "schema.d.ts"
sys.path.insert(0, str(WEB))
import build  # noqa: E402

_LEFT_OUT = ("example", "examples", "description", "title", "summary")


def document() -> dict[str, Any]:
    """Return the document without what says nothing about types, and without the replies of refusals."""
    found: dict[str, Any] = _plain(json.loads(json.dumps(bare_app(HttpSettings()).openapi())))
    for methods in found["paths"].values():
        for operation in methods.values():
            replies = operation["responses"]
            operation["responses"] = {status: replies[status] for status in replies if status < "300"}
    return found


def _plain(value: Any, *, named: bool = False) -> Any:
    """Return a part of the document without its texts; in `properties`, every key is a name."""
    if isinstance(value, dict):
        return {
            key: _plain(part, named=key in ("properties", "schemas", "paths"))
            for key, part in value.items()
            if named or key not in _LEFT_OUT
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value


def types() -> str:
    """Return the types as TypeScript."""
    build.install(WEB)
    command = [*build.node(), "node_modules/openapi-typescript/bin/cli.js", "--alphabetize"]
    made = subprocess.run(
        command, cwd=WEB, input=json.dumps(document()), capture_output=True, text=True, check=True
    )
    return made.stdout


if __name__ == "__main__":
    TYPES.write_text(types())
