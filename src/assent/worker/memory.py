"""The garbage collector of a process that only works in batches."""

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 100_000


def collect_less_often() -> None:
    """Let a batch live and die between two collections.

    A batch makes tens of thousands of objects and drops them all at its commit; reference counting frees them. With
    Python's defaults the collector walks them dozens of times meanwhile, and finds nothing: about a sixth of a
    worker's processor time. What was loaded before is never walked again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 50, 100)
