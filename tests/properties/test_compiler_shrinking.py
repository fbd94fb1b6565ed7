"""The fuzzer's checks with choices that hypothesis makes, so that a failure shrinks to the smallest graph."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.choosing import Chooser, Drawn
from tests.properties.test_compiler_fuzz import CHECKS

pytestmark = pytest.mark.long

EXAMPLES = 100


@pytest.mark.parametrize("check", [check for check, _ in CHECKS], ids=lambda check: check.__name__)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_drawn_cases(check: Callable[[Chooser], None], data: st.DataObject) -> None:
    check(Drawn(data))
