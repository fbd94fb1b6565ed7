"""How far long work has come: a bar on standard error, for whoever sits at a terminal."""

from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from assent.cli.report import console


class Bar:
    """Grows as more work is found."""

    def __init__(self, what: str, *, shown: bool) -> None:
        out = console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            console=out,
            transient=True,
            disable=not (shown and out.is_terminal),
        )
        self._task = self._progress.add_task(what, total=0)
        self._total = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def expect(self, more: int) -> None:
        self._total += more
        self._progress.update(self._task, total=self._total)

    def advance(self, by: int = 1) -> None:
        self._progress.advance(self._task, by)
