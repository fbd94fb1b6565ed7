"""Background work of our own workers. The token rests until it has ended; with `await: false` it goes on at once."""

from typing import TYPE_CHECKING, Any

from assent.engine.inputs import Input
from assent.engine.nodes.awaiting import deadline, read_answer
from assent.engine.nodes.base import Done, Failure, Handler, ResolveTask, Rest, Verdict
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection
from assent.model.task import Submittable, TaskSpec

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Task(Handler):
    kind = NodeKind.TASK

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._type = node.config["task"]
        self._input = Values(node.config.get("input", {}), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> ResolveTask:
        return ResolveTask(self._type, self._input(visit.variables))

    def answered(self, visit: "Visit", answer: Any) -> Done | Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, str(answer))
        task = self._wanted(answer)
        return Rest(resume_at=deadline(visit), creates=(task,)) if task.awaited else Done(creates=(task,))

    def resume(self, visit: "Visit", incoming: Input) -> Verdict | Rejection:
        answer = read_answer(visit, incoming, self._output)
        return super().resume(visit, incoming) if answer is None else answer

    def _wanted(self, found: Submittable) -> TaskSpec:
        config = self.node.config
        priority = config.get("priority", found.priority)
        return TaskSpec(
            self._type, found.input, priority, found.attempts_max, awaited=config.get("await", True)
        )
