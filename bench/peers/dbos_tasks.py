"""DBOS Transact: workflows that do nothing, through a queue that is polled every 10 ms, 50 at a time in one process."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import psycopg
from dbos import DBOS, DBOSClient

from bench.child import ChildRun
from bench.peers.waits import IGNORED

AT_A_TIME = 50
POLL_S = 0.01
ENQUEUERS = 8

begun: SimpleQueue[float] = SimpleQueue()


@DBOS.workflow()
def nothing(number: int) -> int:
    return number


@DBOS.workflow()
def ring(number: int) -> int:
    begun.put(time.perf_counter())
    return number


def measure(url: str, tasks: int, singles: int) -> ChildRun:
    config: Any = {
        **{"name": "bench", "system_database_url": url, "log_level": "ERROR", "application_version": "1"},
        **{"sys_db_pool_size": 20, "max_executor_threads": 2 * AT_A_TIME},
    }

    def launch() -> None:
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue("q", polling_interval_sec=POLL_S, worker_concurrency=AT_A_TIME)

    launch()
    _enqueue(url, 50)
    _wait_for(url, 50)
    DBOS.destroy()
    _enqueue(url, tasks)
    began_s = time.perf_counter()
    launch()
    try:
        _wait_for(url, tasks + 50)
        seconds = time.perf_counter() - began_s
        queue, waits_ms = DBOS.register_queue("q", polling_interval_sec=POLL_S), []
        for number in range(singles + IGNORED):
            time.sleep(0.02)
            submitted = time.perf_counter()
            queue.enqueue(ring, number)
            wait_ms = (begun.get() - submitted) * 1000
            if number >= IGNORED:
                waits_ms.append(wait_ms)
        return ChildRun(tasks, seconds, {"waits_ms": waits_ms})
    finally:
        DBOS.destroy()


def _enqueue(url: str, count: int) -> None:
    client = DBOSClient(system_database_url=url, system_database_pool_size=ENQUEUERS)
    options: Any = {"workflow_name": nothing.__qualname__, "queue_name": "q", "application_name": "bench"}
    with ThreadPoolExecutor(ENQUEUERS) as threads:
        list(threads.map(lambda number: client.enqueue(options, number), range(count)))
    client.destroy()


def _wait_for(url: str, count: int) -> None:
    done = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
    with psycopg.connect(url, autocommit=True) as connection:
        while (connection.execute(done).fetchone() or (0,))[0] < count:
            time.sleep(0.01)


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).hand_over()
