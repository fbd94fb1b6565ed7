"""Definitions, drafts and what is wrong with them, as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from assent.compiler.changes import Diff
from assent.compiler.credentials import hide_credentials
from assent.compiler.diagram import diagram
from assent.compiler.diff import diff
from assent.definitions.definition import EVERYBODY, DefinitionVersion, Kind, Publication, Status
from assent.http.texts import Body, Data, ShortText
from assent.model.problems import Problem, first_problems
from assent.model.terms import refuse
from assent.model.workflow import Workflow
from assent.store.rows import Row

SOURCES_MAX: Final = 50
SOURCES_LENGTH_MAX: Final = 262_144
"""Of all texts of a request together."""
FLOW: Final = {
    "flow": "leave.request",
    "version": 1,
    "start": "ask",
    "steps": [
        {"id": "ask", "type": "approval", "assignee": {"role": "manager"}},
        {"id": "done", "type": "terminal"},
    ],
    "transitions": [
        {"from": "ask", "event": "approved", "to": "done"},
        {"from": "ask", "event": "rejected", "to": "done"},
    ],
}


class DraftSource(Body):
    """A flow or a patch as it is being written, right or wrong."""

    source: Data = Field(description="As it is written in files, as JSON.", examples=[FLOW])


class SourceText(Body):
    name: ShortText = Field(description="What problems call it.", examples=["leave.flow.yaml"])
    text: str = Field(description="YAML; several documents are separated by `---`.", examples=["flow: leave"])


class Sources(Body):
    """Contracts, patches and flows that belong together."""

    sources: Annotated[list[SourceText], Field(min_length=1, max_length=SOURCES_MAX)] = Field(
        examples=[[{"name": "leave.flow.yaml", "text": "flow: leave.request\nversion: 1\n"}]]
    )

    @model_validator(mode="after")
    def _in_a_while(self) -> Self:
        """Compiling takes a second or so for this much."""
        if (length := sum(len(source.text) for source in self.sources)) > SOURCES_LENGTH_MAX:
            message = f"expected at most {SOURCES_LENGTH_MAX:,} characters of sources, found {length:,}"
            raise refuse("TOO_LONG", message, hint="send fewer at a time")
        return self


class PlacedProblem(BaseModel):
    """One thing that is wrong, and where it stands in the text."""

    code: str = Field(examples=["UNKNOWN_STEP"])
    message: str
    path: list[str | int] = Field(examples=[["transitions", 0, "to"]])
    hint: str | None = None
    source: str | None = Field(None, examples=["leave.flow.yaml"])
    line: int | None = None
    column: int | None = None

    @classmethod
    def first_of(cls, problems: Sequence[Problem]) -> "list[PlacedProblem]":
        """As many as an answer tells."""
        return [cls.of(problem) for problem in first_problems(problems)]

    @classmethod
    def of(cls, problem: Problem) -> "PlacedProblem":
        at = problem.position
        return cls(
            code=problem.code,
            message=problem.message,
            path=list(problem.path),
            hint=problem.hint,
            source=problem.source,
            line=at.line if at else None,
            column=at.column if at else None,
        )


class WorkflowBody(BaseModel):
    """What sources compiled to."""

    kind: Literal["effective", "flow"]
    key: str = Field(examples=["leave.request"])
    version: int
    hash: str
    nodes: int
    edges: int
    diagram: str = Field(description="In Mermaid.")

    @classmethod
    def of(cls, workflow: Workflow) -> "WorkflowBody":
        return cls(
            kind=workflow.kind,
            key=workflow.key,
            version=workflow.version,
            hash=workflow.hash,
            nodes=len(workflow.nodes),
            edges=len(workflow.edges),
            diagram=diagram(workflow),
        )


class CheckedBody(BaseModel):
    """What was found. Nothing was kept."""

    problems: list[PlacedProblem]
    workflows: list[WorkflowBody] = Field(description="Of what has no problems.")


class DefinitionSummary(BaseModel):
    """A version of a definition."""

    id: UUID
    kind: Kind
    key: str = Field(examples=["leave.request"])
    version: int
    status: Status
    name: str
    entity_type: str | None
    is_everybodys: bool = Field(description="Whether every org has it; else it is the org's own.")
    hash: str | None = Field(description="Of what it compiled to.")
    compiler_version: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, found: DefinitionVersion) -> "DefinitionSummary":
        return cls(**summary_of(found))


class DefinitionBody(DefinitionSummary):
    source: Any = Field(
        description="What authors wrote: a flow, a contract, a patch, or the patches together."
    )

    @classmethod
    def of_row(cls, row: Row) -> "DefinitionBody":
        return cls(**summary_of(DefinitionVersion.of(row)), source=hide_credentials(_source(row)))


class DraftBody(DefinitionBody):
    edited_by: list[str] = Field(description="Everybody who wrote it since it was begun.", examples=[["ann"]])
    problems: list[PlacedProblem] = Field(description="Everything that keeps it from being published.")


class PublicationBody(BaseModel):
    """What publishing did."""

    definition: DefinitionSummary
    effective: DefinitionSummary | None = Field(description="What starts from now on.")
    changed: bool = Field(description="False where exactly this was published already.")

    @classmethod
    def of(cls, done: Publication) -> "PublicationBody":
        return cls(
            definition=DefinitionSummary.of(done.source),
            effective=DefinitionSummary.of(done.effective) if done.effective else None,
            changed=done.changed,
        )


class PublicationsBody(BaseModel):
    """What publishing several at once did: all of it."""

    publications: list[PublicationBody]


class ChangeBody(BaseModel):
    """One thing that is not what it was."""

    sort: str = Field(examples=["added"])
    what: str = Field(examples=["node"])
    id: str
    text: str
    provenance: str
    details: list[dict[str, Any]]


class DefinitionDiff(BaseModel):
    """What differs between two versions, slot by slot."""

    before: str
    after: str
    groups: dict[str, list[ChangeBody]]
    text: str = Field(description="The same for people.")

    @classmethod
    def of(cls, before: Workflow, after: Workflow) -> "DefinitionDiff":
        found: Diff = diff(*map(_without_credentials, (before, after)))
        return cls(**found.to_json(), text=found.to_text())


def _without_credentials(workflow: Workflow) -> Workflow:
    nodes = {key: replace(node, config=hide_credentials(node.config)) for key, node in workflow.nodes.items()}
    return replace(workflow, nodes=nodes)


def summary_of(found: DefinitionVersion) -> Mapping[str, Any]:
    return {
        "id": found.id,
        "kind": found.definition_kind,
        "key": found.key,
        "version": found.version,
        "status": found.status,
        "name": found.name,
        "entity_type": found.entity_type,
        "is_everybodys": found.org_id == EVERYBODY,
        "hash": found.compiled_hash,
        "compiler_version": found.compiler_version,
        "created_by": found.created_by,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
    }


def _source(row: Row) -> Any:
    match row["definition_kind"]:
        case "flow":
            return row["source_json"]
        case "envelope":
            return row["source_json"]["contract"]
        case "org_patch":
            return row["body_patches_json"][0]
        case _:
            return list(row["body_patches_json"] or ())
