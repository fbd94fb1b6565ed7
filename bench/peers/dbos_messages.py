"""DBOS Transact: workflows that wait in `recv` in a worker process, to each of which a client sends one message."""

import sys
import threading
from typing import Final

import psycopg
from dbos import DBOS, DBOSClient

HOUR_S = 3_600
QUEUE: Final = "messages"

_LATENCIES_MS: Final = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000 - %s
  FROM dbos.operation_outputs WHERE workflow_uuid = %s AND function_name LIKE '%%nothing'"""


@DBOS.step()
async def nothing() -> int:
    return 1


@DBOS.workflow()
async def waiting() -> int:
    await DBOS.recv_async(timeout_seconds=HOUR_S)
    return await nothing()


def start(client: DBOSClient, number: int) -> list[str]:
    """Enqueue workflows that wait; return their ids."""
    options = {"workflow_name": waiting.__qualname__, "queue_name": QUEUE}
    return [client.enqueue(options).get_workflow_id() for _ in range(number)]


def count_waiting(url: str) -> int:
    """Count the workflows that have come to their `recv`: DBOS notes the end of its time first."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM dbos.operation_outputs WHERE function_name = 'DBOS.sleep'"
        ).fetchone()
    return int(row[0]) if row else 0


def latencies_ms(url: str, sent_ms: dict[str, float]) -> list[float]:
    """Return for each workflow how long after `send` had returned the commit of its step was."""
    with psycopg.connect(url) as connection:
        found = [
            connection.execute(_LATENCIES_MS, (at_ms, workflow_id)).fetchone()
            for workflow_id, at_ms in sent_ms.items()
        ]
    return [float(row[0]) for row in found if row]


def _work(url: str) -> None:
    DBOS(
        config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "max_executor_threads": 64}
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.05)
    threading.Event().wait()


if __name__ == "__main__":
    _work(sys.argv[1])
