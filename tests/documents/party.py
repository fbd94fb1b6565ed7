"""An outside party as a process of its own: it is asked by webhook, hands documents in over HTTP, and reports them.

It knows nothing but the address of the API, its key, and what its client does in each round: the types that come.
"""

import json
import os
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

API = os.environ["PARTY_API"]
KEY = os.environ["PARTY_KEY"]
ROUNDS: list[list[str]] = json.loads(os.environ["PARTY_ROUNDS"])
ASKED: list[dict[str, Any]] = []


def call(path: str, body: Any) -> Any:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{API}{path}", json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


def hand_in(asked: dict[str, Any]) -> None:
    """Create what the client sends of what was asked for, and report it as one bundle, twice."""
    sends = ROUNDS.pop(0) if ROUNDS else []
    cargo = []
    for kind in sends:
        made = call("/api/documents", {"document_type": kind, "subject": asked["subject"]})
        version = call(f"/api/documents/{made['id']}/versions", {"structured_data": {"sent": kind}})
        cargo.append({"cargo_ref": version["cargo"], "doc_type": kind})
    if cargo:
        report = {"task_id": asked["request"], "idempotency_key": f"of {asked['request']}", "items": cargo}
        for _ in range(2):
            call("/api/workflow/task-complete", report)


class Party(BaseHTTPRequestHandler):
    """Answers a webhook when what it asks for was handed in; GET tells what it was asked."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ASKED.append(asked | {"header": self.headers["Assent-Request"]})
        if asked["event"] == "asked":
            hand_in(asked)
        self._answer(b"{}")

    def do_GET(self) -> None:
        self._answer(json.dumps(ASKED).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep standard output for the port."""


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Party)
    print(server.server_port, flush=True)
    server.serve_forever()
