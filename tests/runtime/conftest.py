"""Definitions and a runtime that go by the test's clock."""

import pytest

from assent.definitions import Definitions
from assent.store.clock import MovedClock


@pytest.fixture
def definitions(clock: MovedClock) -> Definitions:
    return Definitions(clock)
