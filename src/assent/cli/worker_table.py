"""What a person sees while the worker runs: a line for each duty, with what it did and how fast."""

from rich.table import Table
from rich.text import Text

from assent.worker.journal import Tallies, Tally


class WorkerTable:
    """A table that is drawn again each time it is shown."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies

    def __rich__(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("duty")
        for heading in ("done", "per s", "runs", "errors"):
            table.add_column(heading, justify="right")
        table.add_column("")
        rates = self._tallies.rates()
        for name, tally in self._tallies.by_duty.items():
            table.add_row(
                name, f"{tally.count:,}", _rate(rates[name]), f"{tally.runs:,}", _errors(tally), parts(tally)
            )
        return table


def parts(tally: Tally) -> str:
    """Return what a duty did, by kind."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in tally.parts.items() if count)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}" if per_second else "–"


def _errors(tally: Tally) -> Text:
    """Return the errors of a duty as text with a style: the console reads no markup."""
    return Text(f"{tally.errors:,}", style="red") if tally.errors else Text("–")
