"""Bodies of definitions, drafts, publications, checks and differences."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import AliasChoices, Field

from assent.bodies.body import ResponseModel
from assent.bodies.problems import PlacedProblem
from assent.compiler.credentials import hide_credentials
from assent.compiler.diagram import diagram
from assent.compiler.diff import Diff, diff
from assent.definitions.definition import Kind, Publication, Status
from assent.definitions.drafts import Draft
from assent.definitions.recompile import Recompiled
from assent.definitions.views import DefinitionContent
from assent.model.problems import Problem
from assent.model.workflow import Workflow


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

    @classmethod
    def of_check(cls, problems: Sequence[Problem], workflows: Iterable[Workflow]) -> "CheckedBody":
        """Return the body of problems and workflows."""
        return cls(
            problems=[PlacedProblem.of_problem(problem) for problem in problems],
            workflows=[WorkflowBody.of_workflow(workflow) for workflow in workflows],
        )


class DefinitionSummary(ResponseModel):
    """A version of a definition."""

    org_id: str = Field(description="The org that it belongs to; `*` for all orgs.", examples=["acme"])
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
    def of_content(cls, content: DefinitionContent) -> "DefinitionBody":
        """Return the body of a version with its source."""
        return cls(**DefinitionSummary.of(content.version).model_dump(), source=content.source)


class DraftBody(DefinitionBody):
    edited_by: list[str] = Field(
        description="All users who edited it since it was created.", examples=[["ann"]]
    )
    problems: list[PlacedProblem] = Field(description="All problems that prevent its publication.")
    tag: str = Field(description="The tag of its source, which `ETag` returns and `If-Match` takes.")

    @classmethod
    def of_draft(cls, draft: Draft) -> "DraftBody":
        """Return the body of a draft."""
        return cls(
            **DefinitionBody.of_content(draft.content).model_dump(),
            edited_by=list(draft.edited_by),
            problems=PlacedProblem.first_of(draft.problems),
            tag=draft.tag,
        )


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

    @classmethod
    def of_publications(cls, done: Iterable[Publication]) -> "PublicationsBody":
        """Return the body of publications."""
        return cls(publications=[PublicationBody.of_publication(one) for one in done])


class StayingInstance(ResponseModel):
    org_id: str
    instance_id: UUID


class RecompiledBody(ResponseModel):
    """A definition that an older compiler compiled, with what was done to it and its instances."""

    old: DefinitionSummary
    new: DefinitionSummary | None
    same_graph: bool
    problems: list[PlacedProblem]
    moved: int
    staying: list[StayingInstance]

    @classmethod
    def of_recompiled(cls, one: Recompiled) -> "RecompiledBody":
        """Return the body of a definition that was compiled again."""
        return cls(
            old=DefinitionSummary.of(one.old),
            new=DefinitionSummary.of(one.new) if one.new else None,
            same_graph=one.same_graph,
            problems=[PlacedProblem.of_problem(problem) for problem in one.problems],
            moved=one.moved,
            staying=[
                StayingInstance(org_id=org_id, instance_id=instance_id) for org_id, instance_id in one.staying
            ],
        )


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
        return cls.of_diff(diff(*map(_without_credentials, (before, after))))

    @classmethod
    def of_diff(cls, found: Diff) -> "DefinitionDiff":
        """Return the body of differences."""
        return cls(**found.to_json(), text=found.to_text())


def _without_credentials(workflow: Workflow) -> Workflow:
    nodes = {key: replace(node, config=hide_credentials(node.config)) for key, node in workflow.nodes.items()}
    return replace(workflow, nodes=nodes)
