"""Bodies of definitions and drafts, and of their problems."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import AliasChoices, Field, model_validator

from assent.compiler.credentials import hide_credentials
from assent.compiler.diagram import diagram
from assent.compiler.diff import Diff, diff
from assent.definitions.definition import DefinitionVersion, Kind, Publication, Status
from assent.http.fields import Data, RequestModel, ResponseModel, ShortText
from assent.model.problems import Problem, first_problems
from assent.model.terms import refuse
from assent.model.workflow import Workflow
from assent.store.rows import Row

SOURCES_MAX: Final = 50
SOURCES_LENGTH_MAX: Final = 262_144
"""The number of characters in all texts of a request."""
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


class DraftSource(RequestModel):
    """The source of a draft, valid or not."""

    source: Data = Field(description="A flow or a patch, in the format of files, as JSON.", examples=[FLOW])


class SourceText(RequestModel):
    name: ShortText = Field(description="The name of the text in problems.", examples=["leave.flow.yaml"])
    text: str = Field(description="YAML; several documents are separated by `---`.", examples=["flow: leave"])


class Sources(RequestModel):
    """Contracts, patches and flows that are compiled together."""

    sources: Annotated[list[SourceText], Field(min_length=1, max_length=SOURCES_MAX)] = Field(
        examples=[[{"name": "leave.flow.yaml", "text": "flow: leave.request\nversion: 1\n"}]]
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Raise if the texts are too long: compiling the maximum takes about a second."""
        if (length := sum(len(source.text) for source in self.sources)) > SOURCES_LENGTH_MAX:
            message = f"expected at most {SOURCES_LENGTH_MAX:,} characters of sources, found {length:,}"
            raise refuse("TOO_LONG", message, hint="send fewer at a time")
        return self


class PlacedProblem(ResponseModel):
    """One problem, with its position in the text."""

    code: str = Field(examples=["UNKNOWN_NODE"])
    message: str
    path: list[str | int] = Field(examples=[["transitions", 0, "to"]])
    hint: str | None = None
    source: str | None = Field(None, examples=["leave.flow.yaml"])
    line: int | None = None
    column: int | None = None

    @classmethod
    def first_of(cls, problems: Sequence[Problem]) -> "list[PlacedProblem]":
        """Return the bodies of as many problems as a reply lists."""
        return [cls.of_problem(problem) for problem in first_problems(problems)]

    @classmethod
    def of_problem(cls, problem: Problem) -> "PlacedProblem":
        """Return the body of a problem."""
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


class WorkflowBody(ResponseModel):
    """A compiled workflow."""

    kind: Literal["effective", "flow"]
    key: str = Field(examples=["leave.request"])
    version: int
    hash: str
    nodes: int
    edges: int
    diagram: str = Field(description="In Mermaid.")

    @classmethod
    def of_workflow(cls, workflow: Workflow) -> "WorkflowBody":
        """Return the body of a workflow."""
        return cls(
            kind=workflow.kind,
            key=workflow.key,
            version=workflow.version,
            hash=workflow.hash,
            nodes=len(workflow.nodes),
            edges=len(workflow.edges),
            diagram=diagram(workflow),
        )


class CheckedBody(ResponseModel):
    """The result of a check. Nothing was stored."""

    problems: list[PlacedProblem]
    workflows: list[WorkflowBody] = Field(description="The workflows without problems.")


class DefinitionSummary(ResponseModel):
    """A version of a definition."""

    id: UUID
    kind: Kind = Field(validation_alias=AliasChoices("definition_kind", "kind"))
    key: str = Field(examples=["leave.request"])
    version: int
    status: Status
    name: str
    entity_type: str | None
    is_everybodys: bool = Field(description="Whether all orgs have it; else it is the org's own.")
    hash: str | None = Field(
        description="The hash of the compiled workflow.",
        validation_alias=AliasChoices("compiled_hash", "hash"),
    )
    compiler_version: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class DefinitionBody(DefinitionSummary):
    source: Any = Field(description="The source: a flow, a contract, a patch, or the patches together.")

    @classmethod
    def of_row(cls, row: Row) -> "DefinitionBody":
        """Return the body of a definition's row, without credentials."""
        summary = DefinitionSummary.of(DefinitionVersion.of(row)).model_dump()
        return cls(**summary, source=hide_credentials(_source(row)))


class DraftBody(DefinitionBody):
    edited_by: list[str] = Field(
        description="All users who edited it since it was created.", examples=[["ann"]]
    )
    problems: list[PlacedProblem] = Field(description="All problems that prevent its publication.")


class PublicationBody(ResponseModel):
    """The result of a publication."""

    definition: DefinitionSummary
    effective: DefinitionSummary | None = Field(description="The version from which new instances start.")
    changed: bool = Field(description="False if exactly this was published before.")

    @classmethod
    def of_publication(cls, done: Publication) -> "PublicationBody":
        """Return the body of a publication."""
        return cls(
            definition=DefinitionSummary.of(done.source),
            effective=DefinitionSummary.of(done.effective) if done.effective else None,
            changed=done.changed,
        )


class PublicationsBody(ResponseModel):
    """The result of publishing several sources at once."""

    publications: list[PublicationBody]


class ChangeBody(ResponseModel):
    """One difference."""

    sort: str = Field(examples=["added"])
    what: str = Field(examples=["node"])
    id: str
    text: str
    provenance: str
    details: list[dict[str, Any]]


class DefinitionDiff(ResponseModel):
    """The differences between two versions, by slot."""

    before: str
    after: str
    groups: dict[str, list[ChangeBody]]
    text: str = Field(description="The same as text.")

    @classmethod
    def between(cls, before: Workflow, after: Workflow) -> "DefinitionDiff":
        """Return the differences between two workflows, without credentials."""
        found: Diff = diff(*map(_without_credentials, (before, after)))
        return cls(**found.to_json(), text=found.to_text())


def _without_credentials(workflow: Workflow) -> Workflow:
    nodes = {key: replace(node, config=hide_credentials(node.config)) for key, node in workflow.nodes.items()}
    return replace(workflow, nodes=nodes)


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
