"""Alerts: each new incident and dead letter of an org is posted once to its receiver, a minute's together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from assent.definitions import Definition, Definitions, Pin
from assent.effects.alerts import INCIDENTS_MAX, Alert, send_alerts
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.worker.duty import RunResult, Schedule, WorkerContext

_SQL: Final = load_queries("assent.worker", "worker.sql")


class Alerts:
    """Name new incidents and enqueue one webhook for each org, in one transaction.

    The first incident of an org is posted at once; what comes within a minute after an alert is posted together. What
    the alert named is marked with it, so that a restart or another worker posts nothing twice.
    """

    name = "alerts"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError("Alerts need a runtime, for the names of nodes; give the worker context one.")
        self.pace = Schedule(place.options.alerts_interval_ms / 1000)
        self._database = place.database
        self._definitions: Definitions = place.runtime.core.definitions
        self._batch_max = place.options.alerts_batch_max
        self._public_url = place.sending.public.url

    async def run_once(self) -> RunResult:
        return await self._database.run(self._enqueue, org_id=None)

    async def _enqueue(self, connection: Connection) -> RunResult:
        await connection.execute(_SQL.forget_closed_incidents)
        await connection.execute(_SQL.add_alert_times)
        orgs = await connection.fetch(_SQL.lock_orgs_to_alert, self._batch_max)
        if not orgs:
            return RunResult()
        rows = [
            dict(row)
            for row in await connection.fetch(
                _SQL.mark_incidents, [org["org_id"] for org in orgs], INCIDENTS_MAX
            )
        ]
        names = await self._node_names(connection, rows)
        incidents: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            incidents[row["org_id"]].append(self._incident(row, names))
        alerts = [
            Alert(org["org_id"], org["url"], "incidents", incidents[org["org_id"]])
            for org in orgs
            if incidents[org["org_id"]]
        ]
        await send_alerts(connection, alerts, await transaction_time(connection))
        return RunResult(len(rows), more=len(orgs) == self._batch_max)

    async def _node_names(
        self, connection: Connection, rows: Sequence[Row]
    ) -> Mapping[Any, Mapping[str, str]]:
        """Return the names of nodes by their ids, for each definition of these incidents that can be loaded."""
        pins = {_pin(row) for row in rows if row["definition_id"] is not None}
        loaded = await self._definitions.by_id(connection, list(pins))
        return {
            pin: {node.id: node.name for node in found.workflow.nodes.values()}
            for pin, found in loaded.items()
            if isinstance(found, Definition)
        }

    def _incident(self, row: Row, names: Mapping[Any, Mapping[str, str]]) -> dict[str, Any]:
        """Return what an alert says of an incident: no message, which may hold data of a document."""
        node = row["node"]
        known = names.get(_pin(row), {}) if row["definition_id"] is not None else {}
        return {
            "id": str(row["id"]),
            "kind": row["kind"],
            "code": row["code"],
            "definition": row["definition"],
            "definition_version": row["definition_version"],
            "node": known.get(node, node) if node else None,
            "what": row["what"],
            "instance_id": str(row["instance_id"]) if row["instance_id"] else None,
            "partition_id": row["partition_id"],
            "since": row["since"].isoformat(),
            "link": self._link(row),
        }

    def _link(self, row: Row) -> str | None:
        if not self._public_url:
            return None
        page = "instances" if row["kind"] == "instance" else "dead-letters"
        return f"{self._public_url}/app/{quote(row['org_id'], safe='')}/{page}/{row['id']}"


def _pin(row: Row) -> Pin:
    return Pin(row["org_id"], row["definition_id"], row["definition_version"], row["definition_hash"])
