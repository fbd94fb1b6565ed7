"""The names by which this server may be called.

A foreign page can give its own name the address of this machine (DNS rebinding), and then read our answers as its own.
Its requests carry its name in `Host`.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from assent.http.problems import problem_reply
from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from assent.model.parse import shown

ANY: Final = "*"
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


class AllowedHosts:
    """Refuses requests to a server of another name."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._names = {host.lower() for host in hosts if not host.startswith("*.")}
        self._endings = tuple(host[1:].lower() for host in hosts if host.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if not self._is_allowed(_name_of(host)):
                message = f"this server is not called {shown(host)}"
                rejection = Rejection(
                    "HOST_REFUSED", message, hint="ASSENT_HTTP_ALLOWED_HOSTS names what it is called"
                )
                reply = problem_reply(rejection, scope["path"], headers={"connection": "close"})
                await reply.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, name: str) -> bool:
        return name in self._names or name.endswith(self._endings or ("\n",))


def hosts_of(settings: HttpSettings, bound: str) -> Sequence[str]:
    """What the settings say. Without: a server that only this machine reaches is called by names of this machine.

    One that others reach, or that stands behind a proxy, is called by names that only its operator knows.
    """
    if settings.allowed_hosts:
        return settings.allowed_hosts
    if settings.trusted_proxies or not ip_address(bound).is_loopback:
        return (ANY,)
    return (*LOOPBACK, f"[{bound}]" if ":" in bound else bound)


def _name_of(host: str) -> str:
    """Without the port."""
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdigit() and (not name.count(":") or name.endswith("]")) else host
    return bare.lower().removesuffix(".")
