"""What jobs of every kind have in common: how one attempt at one of them is named."""

from collections.abc import Iterable
from uuid import UUID

JobKey = tuple[str, UUID, int]
"""An org, a job of it, and the attempt: together with the worker, the fence of everything that an attempt writes."""


def job_columns(jobs: Iterable[JobKey]) -> tuple[list[str], list[UUID], list[int]]:
    """Return the columns of keys, each as one array argument."""
    keys = list(jobs)
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]
