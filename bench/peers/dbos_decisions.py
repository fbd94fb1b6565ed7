"""DBOS Transact: workflows that wait in `recv` for an approver, whose answer is a `send` by HTTP.

The handler replies when the workflow has ended: it awaits the handle that the start returned, which costs DBOS
nothing, where `retrieve_workflow` would poll.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS, WorkflowHandleAsync
from fastapi import Body, FastAPI

from bench.peers.serving import serve

HOUR_S = 3_600

_waiting: dict[str, WorkflowHandleAsync[str]] = {}


@DBOS.step()
async def post(answer: str) -> str:
    return answer


@DBOS.workflow()
async def approval() -> str:
    answer = await DBOS.recv_async(timeout_seconds=HOUR_S)
    return await post(answer)


@asynccontextmanager
async def _launched(_: FastAPI) -> AsyncIterator[None]:
    DBOS.launch()
    yield
    DBOS.destroy()


app = FastAPI(lifespan=_launched)


@app.post("/start/{number}")
async def start(number: int) -> list[str]:
    """Start workflows that wait; return the paths of their decisions."""
    handles = [await DBOS.start_workflow_async(approval) for _ in range(number)]
    _waiting.update({handle.get_workflow_id(): handle for handle in handles})
    return [f"/decide/{handle.get_workflow_id()}" for handle in handles]


@app.post("/decide/{workflow_id}")
async def decide(workflow_id: str, body: dict[str, Any] = Body()) -> dict[str, str]:  # noqa: B008 - FastAPI's way
    await DBOS.send_async(workflow_id, body["answer"])
    return {"status": await _waiting.pop(workflow_id).get_result()}


if __name__ == "__main__":
    DBOS(
        config={
            "name": "bench",
            "system_database_url": sys.argv[1],
            "log_level": "ERROR",
            "sys_db_pool_size": 20,
            "max_executor_threads": 64,
            "db_engine_kwargs": {"pool_pre_ping": False},
        }
    )
    serve(app)
