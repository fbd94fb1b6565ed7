"""Who is asked: the approvers of an approval, the assignee of a form."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from assent.model.contract import Name, Role
from assent.model.parse import Declaration, shown
from assent.model.terms import Expression, refuse

STRATEGIES: Final = ("role", "user", "manager", "rule", "permission", "chain")


def _manager(value: Any) -> Any:
    if value is True or (isinstance(value, str) and value):
        return value
    raise refuse(
        "WRONG_TYPE", f"`true` or an expression that names a person was expected, found {shown(value)}"
    )


class People(Declaration):
    """Exactly one way to find somebody."""

    role: Role | None = None
    """Anybody who has it."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    manager: Annotated[
        Any, AfterValidator(_manager), Field(json_schema_extra={"type": ["boolean", "string"]})
    ] = None
    """`true`: the manager of whoever started the workflow; else of the person that an expression names."""
    rule: Expression | None = None
    """An expression that gives a person or a list of them."""
    permission: Name | None = None
    """Whoever the contract permits an action or a transition."""
    chain: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """An approval chain of the org; for approvals only."""

    @model_validator(mode="after")
    def _one_strategy(self) -> Self:
        named = [name for name in STRATEGIES if getattr(self, name) is not None]
        if len(named) != 1:
            found = " and ".join(named) or "nothing"
            raise refuse("BAD_VALUE", f"exactly one of {', '.join(STRATEGIES)} was expected, found {found}")
        return self
