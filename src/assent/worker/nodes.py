"""Nodes: each process says that it runs, where and what, so that operators see the fleet.

Every worker has this duty, whichever others it was given, and a server without a worker has it alone. The lease of jobs
cannot tell: a worker without jobs renews none.
"""

import os
import socket
from datetime import timedelta
from typing import Final

from assent import __version__
from assent.operations.nodes import RunningNode, record_node, remove_node
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.options import MACHINE

MISSED_MAX: Final = 3
"""A process that has not said anything for so many intervals is taken for lost."""


class Nodes:
    """Say that this process runs, and forget those that were lost long ago, in one statement."""

    name = "nodes"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.nodes_interval_ms / 1000)
        self._database = place.database
        self._expected_for = timedelta(milliseconds=MISSED_MAX * options.nodes_interval_ms)
        self._lost_kept_for = timedelta(milliseconds=options.nodes_lost_kept_ms)
        self._node = RunningNode(
            id=place.lease.worker_id,
            host=socket.gethostname() if options.host_name == MACHINE else options.host_name,
            pid=os.getpid(),
            version=__version__,
            serves=place.serves,
            duties=place.duties,
            task_types=_task_types(place),
        )

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            is_new = await record_node(connection, self._node, self._expected_for, self._lost_kept_for)
        return RunResult(int(is_new))

    async def finish(self) -> None:
        """Say that this process has ended."""
        async with self._database.transaction(None) as connection:
            await remove_node(connection, self._node.id)


def _task_types(place: WorkerContext) -> tuple[str, ...]:
    if place.runtime is None or "tasks" not in place.duties:
        return ()
    return tuple(sorted(place.runtime.core.task_types))
