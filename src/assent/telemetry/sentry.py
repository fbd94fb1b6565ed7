"""Errors to Sentry: those that are reported, and no others. Imported when `SENTRY_DSN` is set, and never before.

By default nothing that people wrote leaves the house: no local variables, no request, no log lines, no words of the
error, which may quote a row. Its type and the places in the code remain.
"""

from collections.abc import Mapping

import sentry_sdk
from sentry_sdk.types import Event, Hint

from assent.telemetry.spans import log_fields


class Sentry:
    def __init__(self, dsn: str, *, messages: bool = False, environment: str | None = None) -> None:
        sentry_sdk.init(
            dsn,
            environment=environment,
            include_local_variables=False,
            include_source_context=True,
            max_breadcrumbs=0,
            max_request_body_size="never",
            server_name="",
            default_integrations=False,
            auto_enabling_integrations=False,
            before_send=None if messages else _without_words,
        )

    def __call__(self, error: BaseException, tags: Mapping[str, str]) -> None:
        with sentry_sdk.new_scope() as scope:
            for name, value in {**log_fields(), **tags}.items():
                scope.set_tag(name, value)
            scope.capture_exception(error)

    def close(self) -> None:
        """Send what is not yet sent, for a few seconds at most."""
        sentry_sdk.get_client().close(timeout=2.0)


def _without_words(event: Event, _: Hint) -> Event:
    for found in event.get("exception", {}).get("values", []):
        found["value"] = ""
    return event
