"""The trace of a mutation: the span around it, and what its commands hand on to audit, evidence and events."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from assent.model.mutation import Command
from assent.telemetry import Span, current_trace, hooks, scope, span, trace_id_of


@contextmanager
def traced(commands: Sequence[Command]) -> Iterator[tuple[Sequence[Command], Span | None]]:
    """Yield the commands, each with its trace, and the span around them, if there is a tracer.

    What steps want brings the trace of their node, which has a span already.
    """
    if not commands or commands[0].by_step:
        yield commands, None
        return
    first = commands[0]
    with scope(org_id=first.org_id):
        if hooks.tracer is None:
            yield _carrying(commands, first.trace_id or current_trace()), None
            return
        about = {"org_id": first.org_id, "action": first.action, "commands": len(commands)}
        with span("mutate", parent=first.trace_id, attributes=about) as opened:
            yield _carrying(commands, opened.trace if opened else None), opened


def _carrying(commands: Sequence[Command], trace: str | None) -> Sequence[Command]:
    """Commands of the same trace, or of none, go on from here; those of another keep theirs."""
    if trace is None:
        return commands
    return [_goes_on(command, trace) for command in commands]


def _goes_on(command: Command, trace: str) -> Command:
    own = command.trace_id
    if own == trace or (own is not None and trace_id_of(own) != trace_id_of(trace)):
        return command
    return replace(command, trace_id=trace)
