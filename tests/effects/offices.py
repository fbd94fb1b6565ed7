"""An office of an application of the test's own."""

from pathlib import Path

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.effects.sending import LOCAL, Office

CERTIFICATES = Path(__file__).parent / "certificates"


def office_of(app: App, database: Database) -> Office:
    return Office(WorkerContext(database, runtime=app.runtime(database), sending=SendingSettings(LOCAL)))
