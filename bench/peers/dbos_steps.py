"""DBOS Transact: workflows of ten trivial steps, called directly, four at a time; its queue is slower."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from dbos import DBOS

from bench.child import ChildRun

AT_A_TIME = 4
STEPS = 10


@DBOS.step()
def trivial(number: int) -> int:
    return number + 1


@DBOS.workflow()
def ten_steps(number: int) -> int:
    for _ in range(STEPS):
        number = trivial(number)
    return number


def measure(url: str, workflows: int, warm_up: int) -> ChildRun:
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    try:
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            list(threads.map(ten_steps, range(warm_up)))
            before = _steps(url)
            started = time.perf_counter()
            list(threads.map(ten_steps, range(workflows)))
            seconds = time.perf_counter() - started
        return ChildRun(_steps(url) - before, seconds)
    finally:
        DBOS.destroy()


def _steps(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM dbos.operation_outputs").fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).hand_over()
