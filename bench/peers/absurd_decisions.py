"""Absurd: tasks that wait for an event, which an approver emits by HTTP; the worker runs in the server's process.

The handler replies when the task has ended: the worker sets a future in memory, a little before Absurd has written
the end, where `await_task_result` would poll. It polls for work every 5 ms instead of 250.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from fastapi import Body, FastAPI

from bench.peers.absurd_steps import QUEUE
from bench.peers.serving import serve

AT_A_TIME = 20
POLL_S = 0.005

_ended: dict[str, asyncio.Future[str]] = {}


@asynccontextmanager
async def _working(app: FastAPI) -> AsyncIterator[None]:
    url = sys.argv[1]
    worker, app.state.client = AsyncAbsurd(url, queue_name=QUEUE), AsyncAbsurd(url, queue_name=QUEUE)
    worker.register_task("approval")(approval)
    working = asyncio.create_task(worker.start_worker(concurrency=AT_A_TIME, poll_interval=POLL_S))
    yield
    worker.stop_worker()
    await working
    await worker.close()
    await app.state.client.close()


app = FastAPI(lifespan=_working)


async def approval(params: Any, context: AsyncTaskContext) -> str:
    answer = await context.await_event(f"decided:{params}")

    async def post() -> str:
        return str(answer)

    status = await context.step("post", post)
    _ended[params].set_result(status)
    return status


@app.post("/start/{number}")
async def start(number: int) -> list[str]:
    """Start tasks that wait; return the paths of their decisions when all of them wait."""
    names = [f"{len(_ended) + one}" for one in range(number)]
    for name in names:
        _ended[name] = asyncio.get_running_loop().create_future()
        await app.state.client.spawn("approval", name, queue=QUEUE)
    return [f"/decide/{name}" for name in names]


@app.post("/decide/{name}")
async def decide(name: str, body: dict[str, Any] = Body()) -> dict[str, str]:  # noqa: B008 - FastAPI's way
    await app.state.client.emit_event(f"decided:{name}", body["answer"])
    return {"status": await _ended[name]}


if __name__ == "__main__":
    serve(app)
