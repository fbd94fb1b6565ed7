"""Bodies of what administrators look after: the org and its settings, rules, approval chains and signing secrets."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from assent.bodies.body import Data, ResponseModel
from assent.bodies.problems import PlacedProblem
from assent.people.preferences import Mails


class OrgBody(ResponseModel):
    """An org and its settings."""

    org_id: str = Field(examples=["acme"])
    name: str = Field(examples=["Acme Ltd"])
    settings: dict[str, Any] = Field(examples=[{"budget": 500_000, "retention_days": 365}])
    created_at: datetime | None = Field(
        description="Null for an org without a record, which has no settings."
    )


class PartitionBody(ResponseModel):
    """A partition of an org."""

    partition_id: str = Field(examples=["north"])

    @classmethod
    def of_name(cls, name: str) -> "PartitionBody":
        """Return the body of a partition."""
        return cls(partition_id=name)


class ServiceBody(ResponseModel):
    """A service that steps may call."""

    name: str = Field(examples=["rates"])
    base_url: str = Field(examples=["https://rates.example/v1"])
    operations: list[str] = Field(description="What steps may call.", examples=[["getRate"]])
    capability: str = Field(
        description="What publishing a step that calls it takes.", examples=["service:rates:use"]
    )


class RuleBody(ResponseModel):
    """A rule of the org around actions."""

    id: UUID
    name: str = Field(examples=["over the limit"])
    entity_type: str = Field(examples=["invoice"])
    action: str = Field(description="A verb or a transition; `*` for all.", examples=["submit"])
    timing: str = Field(examples=["before"])
    condition: str | dict[str, Any] = Field(examples=["entity.grand_total > org.limit"])
    outcome: str = Field(examples=["deny"])
    then: dict[str, Any] = Field(
        validation_alias="outcome_json", examples=[{"message": "over the limit of {org.limit}"}]
    )
    priority: int
    enabled: bool
    created_at: datetime
    updated_at: datetime


class SavedRuleBody(RuleBody):
    """A rule that was saved, with what may be a mistake in it."""

    warnings: list[PlacedProblem] = Field(description="The settings that it reads and the org does not have.")


class RuleEvaluationBody(ResponseModel):
    """One evaluation of a rule."""

    id: UUID
    rule_id: UUID
    rule_name: str
    timing: str
    action: str = Field(examples=["invoice.submit"])
    entity_type: str
    entity_id: UUID
    entity_version: int = Field(description="The version that was asked about; 0 before there is one.")
    expression: str
    variables: dict[str, Any] = Field(description="The values that it read.")
    result: bool
    outcome: str | None = Field(description="What the rule did; null if its condition was false.")
    actor_id: str
    trace_id: str | None
    at: datetime


class ChainStepBody(ResponseModel):
    """The approvers of one step."""

    name: str = Field(examples=["finance"])
    approvers: dict[str, Any] = Field(examples=[{"role": "finance_manager"}])
    mode: str = Field(examples=["any"])
    quorum: int | None
    due_seconds: int | None


class ChainBody(ResponseModel):
    """An approval chain."""

    id: UUID
    name: str = Field(examples=["large purchases"])
    entity_type: str | None
    active: bool
    steps: list[ChainStepBody]


class SigningSecretBody(ResponseModel):
    """A secret that signs the webhooks of the org, without the secret itself."""

    id: UUID
    created_at: datetime
    retired_at: datetime | None = Field(description="Null while it signs.")


class MadeSigningSecret(ResponseModel):
    """A new signing secret."""

    secret: str = Field(description="It is never shown again.")


class RetiredSecrets(ResponseModel):
    """How many signing secrets were retired."""

    retired: int


class MailTemplateBody(ResponseModel):
    """The template of a kind of mail in a language."""

    kind: str = Field(examples=["asked"])
    language: str = Field(examples=["de"])
    subject: str = Field(examples=["{what} (due {due})"])
    text: str = Field(examples=["You are asked to decide {what}.\n\n{link}"])
    html: str | None = Field(description="Null: made from the text.")
    own: list[str] = Field(description="The parts that are the org's own.", examples=[["subject"]])
    variables: dict[str, str] = Field(
        description="What a template of this kind may name.", examples=[{"what": "the step and the document"}]
    )
    updated_by: str | None
    updated_at: datetime | None


class MailPreviewBody(ResponseModel):
    """A mail with example values."""

    subject: str = Field(examples=["Review: Order 7 (requested by ann)"])
    text: str
    html: str


class PreferencesBody(ResponseModel):
    """How a member is written to."""

    user_id: str = Field(examples=["dora"])
    language: str | None = Field(description="Null: that of the org.", examples=["de"])
    time_zone: str = Field(examples=["Europe/Berlin"])
    mails: Mails = Field(description="When mails that ask come. An escalation comes at once.")
    digest_hour: int = Field(description="The hour of the daily digest, in the time zone.", examples=[8])
    decides_by_mail: bool = Field(
        description="Whether mails to the present address have links that decide, where the org allows them."
    )
    updated_at: datetime | None = Field(description="Null for a member who has set nothing.")


class AlertBody(ResponseModel):
    """An alert that was enqueued."""

    id: UUID = Field(description="The `id` in the body that the receiver gets.")


class FilterBody(ResponseModel):
    """A saved filter."""

    id: UUID
    filter_of: str = Field(description="An entity type, or `inbox`.", examples=["invoice"])
    name: str = Field(examples=["dear ones"])
    shared: bool = Field(description="Whether all of the org use it.")
    filter: Data = Field(examples=[{"where": ["grand_total >= 100000"], "sort": "-grand_total"}])
    saved_by: str
    updated_at: datetime
