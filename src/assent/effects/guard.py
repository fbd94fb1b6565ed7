"""Connecting only to addresses that were judged: the name is resolved once, and what it gave is connected to.

Between the judgement and the connection the name is not resolved again, so that DNS which changes its answer gains
nothing. TLS still verifies the certificate against the name. Every redirect is a connection, and so goes through here.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import httpcore

from assent.effects.addresses import Allowed, refusal_of

_log: Final = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, in the order in which they are to be tried."""


class AddressRefused(Exception):
    """The destination is not one that effects may go to.

    It names the host, never the address: what a name leads to inside is for the log, not for people who start flows.
    """


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a name as the system does, which also reads decimal, octal and hexadecimal forms of addresses."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """The network as effects see it."""

    def __init__(self, allowed: Allowed, resolve: Resolve = resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._judged(host, port)
                return await self._connect(host, addresses, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host} was not reached within {timeout:g} s") from error

    async def _judged(self, host: str, port: int) -> list[str]:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            _log.info("host not resolved", extra={"host": host, "error": str(error)})
            raise httpcore.ConnectError(f"{host} has no address") from error
        if not self._allowed.has_host(host):
            # One bad address is enough: a name that mixes them hopes for the second try.
            for address in addresses:
                if refusal := refusal_of(address, port, self._allowed):
                    _log.warning("address refused", extra={"host": host, "port": port, "refusal": refusal})
                    raise AddressRefused(f"{host} is not a destination that effects may go to")
        return addresses

    async def _connect(self, host: str, addresses: list[str], port: int) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port)
            except httpcore.ConnectError as error:
                failure = error
        _log.info("host not reached", extra={"host": host, "port": port, "error": str(failure)})
        raise httpcore.ConnectError(f"{host} was not reached on port {port}") from failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
