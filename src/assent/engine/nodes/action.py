"""A mutation through the kernel: of the instance's own entity, or of another one."""

from typing import TYPE_CHECKING
from uuid import UUID

from assent.engine.nodes.base import Done, Failure, Handler, Mutate
from assent.engine.programs import Payload, Values, program
from assent.language import Scope
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Mutation, Rejection
from assent.model.views import entity_view

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def receipt_of(mutation: Mutation) -> dict[str, object]:
    """What a step keeps of a mutation that it made (WF-09); no audit row, where nothing changed."""
    entity, audit = mutation.entity, mutation.audit_id
    return {"entity_id": str(entity.id), "version": entity.version, "audit_id": str(audit) if audit else None}


class Action(Handler):
    kind = NodeKind.ACTION

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._payload = Payload(node.config.get("payload", {}), scope)
        self._entity = program(node.config.get("entity"), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Mutate | Failure:
        entity_id: UUID | None = None
        if self._entity is not None:
            found = self._entity.value(visit.variables)
            try:
                entity_id = UUID(str(found))
            except ValueError:
                return Failure("ENTITY_MISSING", f"`entity` of `{self.node.name}` gave {found!r}, not an id")
        return Mutate(str(self.node.config["action"]), self._payload(visit.variables), entity_id)

    def answered(self, visit: "Visit", answer: Mutation | Rejection) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        entity = answer.entity
        output: dict[str, object] = {"mutation": receipt_of(answer)}
        if entity.id == visit.instance.entity_id:
            output["entity_version"] = entity.version
        result = {**visit.variables, "result": entity_view(entity)}
        return Done(output=output, sets=self._output(result))
