"""Every template compiles, its page shows what it compiles to, and an accidental change of output is seen."""

import json
from pathlib import Path

import pytest

from assent.cli.sources import sources_at
from assent.compiler.declarations import CompiledSources, compile_sources
from assent.compiler.diagram import diagram
from assent.compiler.source import read_source
from assent.engine.nodes import HANDLERS
from assent.model.contract import Contract
from assent.model.flow import Flow
from assent.model.parse import Declaration
from assent.model.patch import Patch
from assent.model.workflow import Workflow
from assent.templates import library, template_names
from tests.golden import assert_golden

DECLARATIONS: dict[str, type[Declaration]] = {"contract": Contract, "patch": Patch, "flow": Flow}
GOLDEN = Path(__file__).parents[2] / "data" / "golden_templates.json"
ISSUE_LIST = {
    "amendment_loop",
    "delivery_confirmation",
    "dispute_resolution",
    "expense_approval",
    "fast_track",
    "franchise_royalty",
    "invoice_approval",
    "kyb_onboarding",
    "kyc_onboarding",
    "order_approval",
    "purchase_order",
    "return_credit_note",
    "sales_order_fulfilment",
    "settlement",
    "user_onboarding",
}


def compiled(name: str) -> CompiledSources:
    return compile_sources(sources_at([library() / name]))


def workflow_of(name: str) -> Workflow:
    (workflow,) = compiled(name).workflows
    return workflow


def test_the_library_holds_every_promised_template() -> None:
    assert set(template_names()) == ISSUE_LIST


@pytest.mark.parametrize("name", template_names())
def test_a_template_compiles_without_a_problem(name: str) -> None:
    found = compiled(name)
    assert [str(problem) for problem in found.problems] == []
    assert len(found.workflows) == 1


def test_all_templates_compile_to_their_golden_hashes() -> None:
    hashes = {name: workflow_of(name).hash for name in template_names()}
    assert_golden(GOLDEN, json.dumps(hashes, indent=2) + "\n")


@pytest.mark.parametrize("name", template_names())
def test_the_page_shows_the_diagram_that_the_tool_draws(name: str) -> None:
    page = library() / name / "README.md"
    before, fence, rest = page.read_text(encoding="utf-8").partition("```mermaid\n")
    _, end, after = rest.partition("```\n")
    assert_golden(page, before + fence + diagram(workflow_of(name)) + end + after)


@pytest.mark.parametrize("name", template_names())
def test_a_page_opens_with_a_title_and_one_sentence(name: str) -> None:
    title, blank, sentence, after, *_ = (
        (library() / name / "README.md").read_text(encoding="utf-8").splitlines()
    )
    assert title.startswith("# ")
    assert (blank, after) == ("", "")
    assert sentence.endswith(".")


@pytest.mark.parametrize("name", template_names())
def test_a_template_survives_json_with_its_hash(name: str) -> None:
    workflow = workflow_of(name)
    again = Workflow.from_json(json.loads(json.dumps(workflow.to_json())))
    assert again == workflow
    assert again.content_hash() == workflow.hash


@pytest.mark.parametrize("name", template_names())
def test_a_template_compiles_to_the_same_hash_from_what_storage_keeps(name: str) -> None:
    """Storage keeps what was declared without defaults, and no order of keys."""
    texts = [_kept(file) for file in sorted((library() / name).glob("*.yaml"))]
    (workflow,) = compile_sources(read_source(text, name) for text in texts).workflows
    assert workflow.hash == workflow_of(name).hash


def _kept(file: Path) -> str:
    data = read_source(file.read_text(encoding="utf-8"), file.name).data
    assert isinstance(data, dict)
    kind = next(iter(data))
    declared = DECLARATIONS[kind].model_validate(data)
    kept = declared.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps({kind: kept.pop(kind)} | json.loads(json.dumps(kept, sort_keys=True)))


def test_a_patched_template_differs_from_its_bare_envelope() -> None:
    for name in template_names():
        for found in compiled(name).compiled:
            assert found.bare is None or found.workflow != found.bare


README = Path(__file__).parents[3] / "README.md"
NUMBERS = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}


@pytest.mark.parametrize("name", template_names())
def test_every_kind_of_node_of_a_template_can_be_run(name: str) -> None:
    assert {node.kind for node in workflow_of(name).nodes.values()} <= set(HANDLERS)


def test_the_readme_promises_as_many_templates_as_there_are() -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    assert f"shows {NUMBERS[len(template_names())]}; they run as they are" in text
