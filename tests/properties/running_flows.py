"""Random flows of the kinds that run without anything else, and what may happen to their instances."""

from typing import Any

from tests.properties.choosing import Chooser, chance, pick, shuffled
from tests.properties.generated_graphs import Fragment, GraphBuilder

STEPS = ("plain", "plain", "form", "form", "wait", "timer", "call", "call")


class RunningBuilder(GraphBuilder):
    """Steps that the engine can run: scripts, forms, waits, timers and calls that may fail."""

    def step(self) -> Fragment:
        made: Fragment = getattr(self, f"_{pick(self.chooser, STEPS)}")()
        return made

    def _plain(self) -> Fragment:
        number = len(self.nodes)
        name = self.node(
            "script", set={f"s{number}": "true", "n": pick(self.chooser, ("workflow.n", "5", "0"))}
        )
        return Fragment(name, [self.end(name)])

    def _form(self) -> Fragment:
        timed = chance(self.chooser, 30)
        name = self.node("form", **({"timeout": "1h"} if timed else {}))
        if not self.open_blocks:
            self.forms.append(name)
        return Fragment(name, [self.end(name, "done"), *([self.end(name, "timeout")] if timed else [])])

    def _wait(self) -> Fragment:
        timed = chance(self.chooser, 50)
        name = f"n{len(self.nodes)}"
        self.node("wait_event", key=f"{name}:{{workflow.number}}", **({"timeout": "1h"} if timed else {}))
        return Fragment(name, [self.end(name), *([self.end(name, "timeout")] if timed else [])])

    def _timer(self) -> Fragment:
        name = self.node("wait_timer", **{"for": "30m"})
        return Fragment(name, [self.end(name)])

    def _call(self) -> Fragment:
        name = f"n{len(self.nodes)}"
        self.node(
            "system",
            operation={"sdk": "tests.call"},
            input={"node": f"'{name}'", "number": "workflow.number"},
        )
        answered = chance(self.chooser, 50)
        return Fragment(name, [self.end(name), *([self.end(name, "error")] if answered else [])])


def flow(chooser: Chooser, key: str = "generated.flow") -> dict[str, Any]:
    """A flow that may go back by its forms, and may expire."""
    builder = RunningBuilder(chooser, is_flow=True)
    inner = builder.sequence(chooser.number(1, 3))
    for form in builder.forms:
        if chance(chooser, 50):
            builder.join([builder.end(form, "again")], inner.entry)
    builder.join(inner.ends, "done")
    steps = [*builder.nodes, {"id": "done", "type": "terminal"}]
    made: dict[str, Any] = {"flow": key, "version": 1, "start": inner.entry}
    if chance(chooser, 30):
        steps.append({"id": "late", "type": "terminal"})
        made |= {"timeout": "9d", "on_timeout": "late"}
    return made | {"steps": shuffled(chooser, steps), "transitions": shuffled(chooser, builder.edges)}
