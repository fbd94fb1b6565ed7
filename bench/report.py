"""What a benchmark found: a table for people, and bench/results/<name>.json for programs."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

LOAD_BEFORE = round(os.getloadavg()[0], 2)
"""What others were doing on this machine when we began. Those who wait for many answers suffer most from it."""

_CONSOLE = Console(highlight=False)


def progress(line: str) -> None:
    """Say how far a benchmark is."""
    _CONSOLE.print(f"  {line}", style="dim")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number per run of one case; the median is what counts, the range says how much to trust it."""

    case: str
    unit: str
    runs: Sequence[float]
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


@dataclass(frozen=True, slots=True)
class BenchReport:
    name: str
    title: str
    measurements: Sequence[Measurement]
    totals: Mapping[str, object] = field(default_factory=dict)
    """Figures over all cases, such as ratios; they stand at the top of the JSON file."""

    def publish(self, console: Console) -> None:
        console.print(self._table())
        for key, value in self.totals.items():
            console.print(f"  {key}: {_shown(value)}")
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.json").write_text(json.dumps(self._as_json(), indent=2) + "\n")

    def _table(self) -> Table:
        columns = sorted({key for measurement in self.measurements for key in measurement.facts})
        table = Table(title=self.title, title_justify="left")
        for heading in ("case", "median", "range", "unit", *columns):
            table.add_column(heading, justify="left" if heading in ("case", "unit") else "right")
        for m in self.measurements:
            spread = f"{_shown(min(m.runs))}–{_shown(max(m.runs))}"
            facts = [_shown(m.facts.get(column, "")) for column in columns]
            table.add_row(m.case, _shown(m.median), spread, m.unit, *facts)
        return table

    def _as_json(self) -> dict[str, object]:
        return {
            **self.totals,
            "machine": {
                "python": platform.python_version(),
                "system": platform.platform(),
                "cores": os.cpu_count(),
                "load_before": LOAD_BEFORE,
            },
            "cases": [
                {"case": m.case, "unit": m.unit, "median": m.median, "runs": list(m.runs), **m.facts}
                for m in self.measurements
            ],
        }


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
