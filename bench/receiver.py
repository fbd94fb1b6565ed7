"""A receiver of webhooks in a process of its own: answers 200 to everything, and counts what came how often.

Run by `bench.effects`. It says its port in its first line; at the end of its input it says what it has counted.
"""

import asyncio
import json
import sys
from collections import Counter

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

keys: Counter[bytes] = Counter()


class Receiving(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            headers = self._buffer[:end].lower().split(b"\r\n")
            whole = end + 4 + int(_value(headers, b"content-length: ") or 0)
            if len(self._buffer) < whole:
                return
            self._buffer = self._buffer[whole:]
            keys[_value(headers, b"idempotency-key: ")] += 1
            self._transport.write(ANSWER)


def _value(headers: list[bytes], name: bytes) -> bytes:
    return next((line.removeprefix(name) for line in headers if line.startswith(name)), b"")


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Receiving, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({"effects": len(keys), "requests": sum(keys.values())}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
