"""Definitions that go by the test's clock."""

import pytest

from assent.runtime.definitions import Definitions
from assent.store.clock import MovedClock


@pytest.fixture
def definitions(clock: MovedClock) -> Definitions:
    return Definitions(clock)
