"""Which addresses effects may go to, and connecting only to those.

The public internet, and what an operator allows besides. An address is judged by what it leads to: IPv4 that is
wrapped in IPv6 is taken out first. A name is resolved once, and what it gave is connected to: between the judgement and
the connection it is not resolved again, so that DNS which changes its answer gains nothing. TLS still verifies the
certificate against the name. Every redirect is a connection, and so goes through here.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, Self

import httpcore

_log: Final = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_NEVER: Final[tuple[Network, ...]] = (
    IPv4Network("100.64.0.0/10"),  # shared by carriers: CGNAT, and some clouds' metadata
    IPv4Network("168.63.129.16/32"),  # public by its number, a cloud's metadata by its use
    IPv4Network("192.0.0.0/24"),  # protocol assignments, and another cloud's metadata
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv6Network("2001::/23"),  # protocol assignments, Teredo among them
    IPv6Network("2002::/16"),  # 6to4: IPv4 behind a relay that no operator vouches for
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
)
"""What is refused although Python, in one version or another, takes it for global."""

WEB_PORTS: Final = frozenset({80, 443})
PRIVILEGED_PORTS_MAX: Final = 1023


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an operator allows besides the public internet."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    """Names that are trusted wherever they lead."""

    @classmethod
    def read(cls, entries: Iterable[str]) -> Self:
        """Of networks such as `10.0.0.0/8`, addresses, and names of hosts."""
        networks, hosts = [], set()
        for entry in entries:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.lower().rstrip("."))
        return cls(tuple(networks), frozenset(hosts))

    def with_host(self, host: str) -> Self:
        return type(self)(self.networks, self.hosts | {host.lower().rstrip(".")})

    def has_host(self, host: str) -> bool:
        return host.lower().rstrip(".") in self.hosts

    def has_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks if network.version == address.version)


def refusal_of(text: str, port: int, allowed: Allowed) -> str | None:
    """Why this address is refused; none when it may be connected to."""
    address = unwrapped(ip_address(text))
    if allowed.has_address(address):
        return None
    if not is_public(address):
        return f"{text} is not an address of the public internet"
    if port not in WEB_PORTS and port <= PRIVILEGED_PORTS_MAX:
        return f"port {port} is not one that HTTP is spoken on"
    return None


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, where it is only a way of writing or of reaching that."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: Address) -> bool:
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    if isinstance(address, IPv6Address) and address not in _GLOBAL_IPV6:
        return False
    return address.is_global and not address.is_multicast


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, in the order in which they are to be tried."""


class AddressRefused(Exception):
    """The destination is not one that effects may go to.

    It names the host, never the address: what a name leads to inside is for the log, not for people who start flows.
    """


async def resolve(host: str, port: int) -> list[str]:
    """As the system does it, which also reads decimal, octal and hexadecimal forms of addresses."""
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
