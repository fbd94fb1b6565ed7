"""The compiler: a list of passes over a draft, then a frozen workflow, or every problem that was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assent.compiler.approvals import complete_approvals, require_approvals
from assent.compiler.attach import attach_slots, begin_effective
from assent.compiler.build import build, note_capabilities, put_in_order
from assent.compiler.choices import check_choices, check_reach
from assent.compiler.credentials import check_credentials
from assent.compiler.draft import Pass, WorkflowDraft, run_passes
from assent.compiler.envelope import check_generated, check_integrity, envelope_of
from assent.compiler.expressions import check_expressions
from assent.compiler.flow import begin_flow
from assent.compiler.namespace import fill_slots
from assent.compiler.structure import mark_loops, match_joins, refuse_circles
from assent.compiler.windows import assign_windows, check_writes
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.contract import Contract, parse_contract
from assent.model.flow import Flow, parse_flow
from assent.model.graph import Envelope
from assent.model.patch import Patch, parse_patch
from assent.model.problems import Invalid, Path, Problem
from assent.model.workflow import Workflow

EFFECTIVE_PASSES: Final[tuple[Pass, ...]] = (
    attach_slots,
    assign_windows,
    refuse_circles,
    match_joins,
    require_approvals,
    check_writes,
    check_choices,
    check_reach,
    complete_approvals,
    check_expressions,
    check_credentials,
    note_capabilities,
    put_in_order,
    check_integrity,
)
"""Circles are refused before joins are matched, because matching walks in an order, and circles have none."""

FLOW_PASSES: Final[tuple[Pass, ...]] = (
    assign_windows,
    mark_loops,
    match_joins,
    require_approvals,
    check_writes,
    check_choices,
    check_reach,
    complete_approvals,
    check_expressions,
    check_credentials,
    note_capabilities,
    put_in_order,
)


@dataclass(frozen=True, slots=True)
class Compilation:
    """A workflow, or the problems that keep it from being one; never both."""

    workflow: Workflow | None
    problems: tuple[Problem, ...] = ()

    def unwrap(self) -> Workflow:
        """Return the workflow; raise `Invalid` with every problem."""
        if self.workflow is None:
            raise Invalid(self.problems)
        return self.workflow


def compile_effective(
    envelope: Envelope, patches: Patch | Mapping[str, Any] | Sequence[object] = ()
) -> Compilation:
    """Compile an envelope with what patches, declared or as data, put into its slots.

    Paths of problems lead into the patch; where several are given they begin with the patch's index.
    """
    broken = tuple(check_generated(envelope))
    if broken:
        return Compilation(None, broken)
    given = [patches] if isinstance(patches, Patch | Mapping) else list(patches)
    parsed: dict[Path, Patch] = {}
    problems: list[Problem] = []
    for index, data in enumerate(given):
        path: Path = () if len(given) == 1 else (index,)
        patch, found = (data, []) if isinstance(data, Patch) else parse_patch(data)
        problems += (problem.under(*path) for problem in found)
        if patch is not None:
            parsed[path] = patch
    draft = fill_slots(begin_effective(envelope), envelope, parsed).noting(problems)
    return _finish(draft, EFFECTIVE_PASSES)


def compile_contract(contract: object) -> Compilation:
    """Compile the bare workflow of a contract, declared or as data. Paths of problems lead into the contract."""
    found, problems = (contract, []) if isinstance(contract, Contract) else _parse_contract(contract)
    if found is None:
        return Compilation(None, tuple(problems))
    envelope, refused = envelope_of(found)
    return Compilation(None, refused) if envelope is None else compile_effective(envelope)


def compile_flow(flow: object, contract: Contract | None = None) -> Compilation:
    """Return a flow, declared or as data; `contract` is of the entity type that it names, if it names one.

    Paths of problems lead into the flow.
    """
    found, problems = (flow, []) if isinstance(flow, Flow) else parse_flow(flow)
    if found is None:
        return Compilation(None, tuple(problems))
    return _finish(begin_flow(found, contract), FLOW_PASSES)


def _parse_contract(data: object) -> tuple[Contract | None, list[Problem]]:
    try:
        require_canonical(data)
    except NotCanonical as error:
        return None, [Problem(error.code, str(error), error.path)]
    return parse_contract(data)


def _finish(draft: WorkflowDraft, passes: Sequence[Pass]) -> Compilation:
    draft = run_passes(draft, passes)
    if draft.problems:
        return Compilation(None, tuple(dict.fromkeys(draft.problems)))
    return Compilation(build(draft))
