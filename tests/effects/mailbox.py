"""A real SMTP server for mails to go to: keeps what it received, and refuses what a test tells it to."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from assent.effects.settings import SmtpSettings
from tests.twin import assert_unseen

SENDER = "assent@acme.example"


class Mailbox:
    """What the server took, in order."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.answers: list[str | None] = []
        """What is said to the next mails instead of 250; none hangs up."""
        self.refused: dict[str, str] = {}
        """Recipient → what is said to whoever writes to them."""
        self.port = 25  # until the server is started

    @property
    def mails(self) -> list[EmailMessage]:
        found = [
            message_from_bytes(envelope.original_content, policy=policy.default)
            for envelope in self.envelopes
        ]
        return [mail for mail in found if isinstance(mail, EmailMessage)]

    @property
    def settings(self) -> SmtpSettings:
        return SmtpSettings(host="127.0.0.1", port=self.port, tls="none", sender=SENDER)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, _: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        answer = self.answers.pop(0) if self.answers else "250 taken"
        if answer is None:
            server.transport.abort()
        return answer or "421 gone"

    def sign_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        return AuthResult(success=(data.login, data.password) == (b"assent", b"secret"), handled=False)


class _Controller(Controller):
    """On whichever port is free; the library's own knows only ports that were chosen before."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(encrypted: ssl.SSLContext | None = None) -> Iterator[Mailbox]:
    """A server; one that encrypts also wants a name and a password."""
    mailbox = Mailbox()
    options = {"authenticator": mailbox.sign_in, "auth_required": True, "require_starttls": True}
    securely = options | {"tls_context": encrypted} if encrypted else {}
    controller = _Controller(mailbox, hostname="127.0.0.1", port=0, **securely)
    controller.start()
    try:
        mailbox.port = controller.port
        yield mailbox
        for envelope in mailbox.envelopes:
            assert_unseen(f"{envelope.rcpt_tos} {envelope.original_content!r}")
    finally:
        controller.stop()
