"""Effects: what steps want to be sent into the world, and sending it.

Steps write effects in their own transaction and never send anything (WF-10). The effects worker claims them, sends
them outside of any transaction, and records their results. Nothing here decides anything about a workflow.
"""
