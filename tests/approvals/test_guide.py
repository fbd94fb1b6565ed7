"""The guide says what is true: its chain can be kept, and what it names is there."""

import re
from pathlib import Path

import yaml

from assent.approvals import APPROVERS_MAX, keep_chain
from assent.people import DELEGATE, Directory
from tests.postgres import START

GUIDE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()


async def test_chain_of_the_guide_is_kept(acme):
    (source,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    kept = await keep_chain(acme, "acme", yaml.safe_load(source), START)
    assert [step.name for step in kept.steps] == ["finance", "board", "head"]


def test_methods_of_a_directory_are_those_of_the_guide():
    written = set(re.findall(r"async def (\w+)\(self, connection, wanted\)", GUIDE))
    assert written == {name for name in vars(Directory) if not name.startswith("_")}


def test_limits_and_capabilities_of_the_guide_are_the_codes_own():
    assert f"A request asks {APPROVERS_MAX} people at most" in GUIDE
    assert f"`{DELEGATE}`" in GUIDE


def test_every_code_of_the_guide_is_in_the_code():
    rooms = [
        Path(__file__).parents[2] / "src/assent" / room
        for room in ("approvals", "engine", "people", "runtime")
    ]
    source = "".join(path.read_text() for room in rooms for path in room.glob("*.py"))
    codes = set(re.findall(r"`([A-Z][A-Z_]{4,})`", GUIDE))
    assert codes
    assert {code for code in codes if f'"{code}"' not in source} == set()
