"""`python -m assent` is the command line."""

from assent.cli.main import app

app()
