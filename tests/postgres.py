"""The server that our own tests run on, and the databases that they get: those of the test kit for applications."""

from assent.testing.databases import SETTINGS, START, Databases
from assent.testing.server import fastest_folder, folder_of_this_run, server_at

__all__ = ["SETTINGS", "START", "Databases", "fastest_folder", "folder_of_this_run", "server_at"]
