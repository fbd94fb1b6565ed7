"""A peer behind FastAPI, as its users would put it there: uvicorn on a free port of the loopback, with uvloop."""

import json
import socket

import uvicorn
from fastapi import FastAPI


def serve(app: FastAPI) -> None:
    """Serve until SIGTERM; the first line of the output says where."""
    listening = socket.create_server(("127.0.0.1", 0))
    # Headers and body are two writes: without it, the second waits for the client's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host, port = listening.getsockname()
    print(json.dumps({"host": host, "port": port}), flush=True)
    server = uvicorn.Server(uvicorn.Config(app, loop="uvloop", log_level="warning", access_log=False))
    server.run(sockets=[listening])
