"""Ready workflows to begin from. `/api/templates`"""

from typing import Annotated, Any

from fastapi import Depends
from pydantic import BaseModel, Field

from assent.http.desk import RequestContext
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.signing import Reading
from assent.http.texts import NamePath
from assent.model.mutation import Refused, Rejection
from assent.templates.library import WorkflowTemplate, templates

router = Router(prefix="/api/templates", tags=["templates"])

Look = Annotated[RequestContext, Depends(Reading("definitions:read"))]


class TemplateSummary(BaseModel):
    name: str = Field(examples=["invoice_approval"])
    summary: str

    @classmethod
    def of(cls, template: WorkflowTemplate) -> "TemplateSummary":
        return cls(name=template.name, summary=template.summary)


class TemplateBody(TemplateSummary):
    """A ready workflow, with its page and its files."""

    files: dict[str, str] = Field(
        examples=[{"contract.yaml": "contract: invoice\n", "README.md": "# Invoice"}]
    )


class TemplatesBody(BaseModel):
    items: list[TemplateSummary]


@router.get("", response_model=TemplatesBody, summary="List templates, by name", responses=documented())
async def list_templates(desk: Look) -> Any:
    """They come with the package; publish one as it is, or begin with it."""
    return TemplatesBody(items=[TemplateSummary.of(template) for template in templates().values()])


@router.get("/{name}", response_model=TemplateBody, summary="Read a template", responses=documented(404, 422))
async def show_template(desk: Look, name: NamePath) -> Any:
    """With all its files, and a page of what it does."""
    template = templates().get(name)
    if template is None:
        hint = f"there are: {', '.join(templates())}"
        raise Refused(Rejection("NOT_FOUND", f"there is no template `{name}`", ("name",), hint=hint))
    return TemplateBody(name=template.name, summary=template.summary, files=template.files)
