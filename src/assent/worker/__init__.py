"""The background duties and their supervisor.

A duty is a file: what it looks for, its `.sql`, and `run_once()` that says what it did. The supervisor holds the one
list of them. Nothing here decides anything about a workflow; duties notify the engine of what happened, or tidy up.
"""
