"""Released: what a worker claimed and never finished goes back into its queue."""

from datetime import timedelta
from typing import Final

from assent.store.queries import load_queries
from assent.worker.duty import Done, Pace, Workplace
from assent.worker.plans import look_up_by_index

_SQL: Final = load_queries("assent.worker", "released.sql")


class Released:
    """Puts events and effects back whose lease is over; those without attempts left become dead letters.

    An event or effect that kills every worker which touches it thus ends where a person looks at it.
    """

    name = "released"

    def __init__(self, place: Workplace) -> None:
        options = place.options
        self.pace = Pace(options.released_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._batch_max = options.released_batch_max
        self._lease = timedelta(milliseconds=options.released_lease_ms)

    async def run_once(self) -> Done:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            (events,) = await connection.fetch(_SQL.release_events, self._batch_max, self._lease)
            (effects,) = await connection.fetch(_SQL.release_effects, self._batch_max, self._lease)
        parts = {
            "events": events["released"],
            "effects": effects["released"],
            "dead_letters": events["dead"] + effects["dead"],
        }
        full = self._batch_max in (events["released"] + events["dead"], effects["released"] + effects["dead"])
        return Done(sum(parts.values()), more=full, parts=parts)
