"""Which addresses effects may go to: those of the public internet, and what an operator allows besides. Pure.

An address is judged by what it leads to: IPv4 that is wrapped in IPv6 is taken out first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

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
        """Return the list of what is named: networks such as `10.0.0.0/8`, addresses, and names of hosts."""
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
    """Return why this address is refused; none when it may be connected to."""
    address = unwrapped(ip_address(text))
    if allowed.has_address(address):
        return None
    if not is_public(address):
        return f"{text} is not an address of the public internet"
    if port not in WEB_PORTS and port <= PRIVILEGED_PORTS_MAX:
        return f"port {port} is not one that HTTP is spoken on"
    return None


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 one, where it is only a way of writing or of reaching that."""
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
