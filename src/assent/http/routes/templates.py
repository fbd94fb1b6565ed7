"""Templates: ready workflows. `/api/templates`"""

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.http.context import RequestContext
from assent.http.fields import NamePath
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.templates import templates

router = Router(prefix="/api/templates", tags=["templates"])


class TemplateSummary(ResponseModel):
    name: str = Field(examples=["invoice_approval"])
    summary: str


class TemplateBody(TemplateSummary):
    """A ready workflow, with its page and its files."""

    files: dict[str, str] = Field(
        examples=[{"contract.yaml": "contract: invoice\n", "README.md": "# Invoice"}]
    )


class TemplatesBody(ResponseModel):
    items: list[TemplateSummary]


@router.query("", scope="definitions:read", summary="List templates, by name")
async def list_templates(context: RequestContext) -> TemplatesBody:
    """They are part of the package; publish one as it is, or change it first."""
    return TemplatesBody(items=[TemplateSummary.of(template) for template in templates().values()])


@router.query("/{name}", scope="definitions:read", errors=(404,), summary="Read a template")
async def show_template(context: RequestContext, name: NamePath) -> TemplateBody:
    """With all its files, and a page that describes it."""
    template = templates().get(name)
    if template is None:
        hint = f"there are: {', '.join(templates())}"
        raise Refused(Rejection("NOT_FOUND", f"there is no template `{name}`", ("name",), hint=hint))
    return TemplateBody.of(template)
