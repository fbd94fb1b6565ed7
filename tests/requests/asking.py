"""A flow that asks a vendor for something and waits for the results, and looking at what became of it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from assent.runtime import InstanceView, Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from tests.authored import END, arrows
from tests.requests.bundles import item
from tests.worker.queues import run_until_done
from tests.world import ANN, ORG, drain, publish_steps, rows

ENDS = [END, {"id": "failed", "type": "terminal"}, {"id": "late", "type": "terminal"}]


def vendor(**rest: Any) -> dict[str, Any]:
    asked = {"id": "vendor", "type": "webhook_out", "url": "https://vendor.example/checks", "await": "result"}
    return {**asked, "body": {"client": "{workflow.client}"}, **rest}


DELIVERIES = """
SELECT d.*, j.status, j.attempts, j.attempts_max, j.run_at, j.worker_id, j.losses, j.suspect, j.ended_at, a.error
  FROM assent.outside_request_deliveries d JOIN assent.jobs j USING (org_id, id)
  LEFT JOIN LATERAL (SELECT t.error FROM assent.job_attempts t WHERE t.org_id = d.org_id AND t.job_id = d.id
                      ORDER BY t.attempt DESC LIMIT 1) AS a ON true
 WHERE d.org_id <> 'aatwin' ORDER BY d.position
"""


async def publish_vendor(database: Database, key: str = "kyc", *, org: str = ORG, **rest: Any) -> None:
    """Completed it ends at `end`, failed at `failed`, and where there is an edge for it, in time at `late`."""
    timed = rest.pop("timed", False)
    ways = arrows("vendor", "end") + arrows("vendor", "failed", event="error")
    ways += arrows("vendor", "late", event="timeout") if timed else []
    ends = ENDS if timed else ENDS[:2]
    await publish_steps(database, key, [vendor(**rest), *ends], ways, org=org)


@dataclass
class Desk:
    """An engine and a worker for results, one after the other."""

    runtime: Runtime
    database: Database
    clock: MovedClock

    async def start(self, flow: str = "kyc", org: str = ORG) -> InstanceView:
        return await self.runtime.org(org, ANN).instances.start(flow, {"client": "c-1"})

    async def push(self, request_id: UUID, key: str = "k", *items: Any, **rest: Any) -> str:
        given = items if items or "status" in rest else (item(),)
        return await self.runtime.org(ORG).requests.push_result(request_id, key, list(given), **rest)

    async def work(self) -> dict[str, int]:
        """Fold what came, and let the engine hear of it."""
        done = await run_until_done(Results(WorkerContext(self.database, runtime=self.runtime)))
        await drain(self.runtime)
        return dict(done.parts)

    async def request(self) -> dict[str, Any]:
        (found,) = await rows(self.database, "outside_requests")
        return found

    async def requests(self) -> list[dict[str, Any]]:
        return sorted(await rows(self.database, "outside_requests"), key=lambda row: row["id"])

    async def deliveries(self) -> list[dict[str, Any]]:
        async with self.database.transaction(None) as connection:
            return [dict(row) for row in await connection.fetch(DELIVERIES)]

    async def items(self) -> list[dict[str, Any]]:
        return sorted(await rows(self.database, "outside_request_items"), key=lambda row: row["id"])

    async def history(self) -> list[tuple[str, str]]:
        found = sorted(await rows(self.database, "outside_request_history"), key=lambda row: row["at"])
        return [(row["what"], row["source"]) for row in found]

    async def instance(self) -> dict[str, Any]:
        (found,) = await rows(self.database, "workflow_instances")
        return found

    async def ended_at(self) -> str:
        """The terminal step that the instance came to."""
        steps = await rows(self.database, "workflow_step_executions")
        (found,) = [step["node_id"] for step in steps if step["node_type"] == "end"]
        return str(found)
