"""What a scenario has brought about so far: its documents, by the names that the steps give them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assent.model.mutation import Refused, Rejection
from assent.testing.sandbox import Sandbox
from assent.testing.scenarios.document_state import DocumentState, ScenarioDocument, document_state
from assent.testing.scenarios.steps import ActStep, ExpectStep, ReplyStep, ResultStep

_NAMED: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True)
class Stage:
    """A sandbox and the documents that a scenario has made in it so far."""

    sandbox: Sandbox
    documents: dict[str, ScenarioDocument] = field(default_factory=dict)
    last: ScenarioDocument | None = None

    def document(self, name: str | None) -> ScenarioDocument:
        """The one that is named, or the last; raises `Refused` where there is none yet."""
        found = self.documents[name] if name is not None else self.last
        if found is None:
            message = "there is no document yet; `create` one, or `start` a flow"
            raise Refused(Rejection("NOT_FOUND", message))
        return found

    def filled(self, data: Any) -> Any:
        """Data in which `{name}` stands for the id of a document that was made under that name."""
        if isinstance(data, Mapping):
            return {key: self.filled(value) for key, value in data.items()}
        if isinstance(data, list):
            return [self.filled(value) for value in data]
        return _NAMED.sub(self._id, data) if isinstance(data, str) else data

    def _id(self, match: re.Match[str]) -> str:
        document = self.documents.get(match[1])
        return str(document.entity_id or document.instance_id) if document else match[0]

    def add(self, document: ScenarioDocument, name: str | None) -> None:
        self.last = document
        if name is not None:
            self.documents[name] = document

    async def standing(self, step: ActStep | ExpectStep | ReplyStep | ResultStep) -> DocumentState:
        return await document_state(self.sandbox, self.document(step.on))


def not_waiting(standing: DocumentState, node: str) -> Refused:
    waiting = ", ".join(standing.waiting) or "nothing"
    message = f"`{node}` does not wait for anybody; what waits is: {waiting}"
    return Refused(Rejection("STEP_NOT_FOUND", message, ("step",)))
