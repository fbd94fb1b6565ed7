"""What a person sees while scenarios run: a row for each that ended, and on a terminal which one runs now."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from assent.testing.scenarios.suite import ScenarioResult

NAME_CELLS_MAX: Final = 90


class ScenarioTable:
    """A table that grows as outcomes come, above a bar that only terminals show."""

    def __init__(self, names: Sequence[str]) -> None:
        # The bar needs a console that knows its width; rows are as long as they are.
        self._out = Console(highlight=False, emoji=False, markup=False)
        self._name_cells = min(NAME_CELLS_MAX, max(map(cell_len, names), default=0))
        self._bar = Progress(
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
            console=self._out,
            transient=True,
            expand=True,
            disable=not self._out.is_terminal,
        )
        self._task = self._bar.add_task("", total=len(names))
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, name: str) -> None:
        self._bar.update(self._task, description=name)

    def end(self, outcome: "ScenarioResult") -> None:
        self._bar.advance(self._task)
        self._out.print(self._row(outcome), soft_wrap=True)

    def _row(self, outcome: "ScenarioResult") -> Text:
        row = Text().append("✓", "green") if outcome.passed else Text().append("✗", "red")
        steps = f"{outcome.steps_done}/{outcome.steps}"
        row.append(f" {set_cell_size(outcome.scenario, self._name_cells)}")
        return row.append(f"  {steps:>7} steps  {outcome.took_s:5.2f} s  {outcome.file}", "dim")
