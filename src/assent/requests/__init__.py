"""Evidence: what is asked of outside parties, what they send back, and what it points to.

Requests are opened and closed by the runtime with their steps; results come in from every door into one queue, and a
worker folds them. Nothing here advances an instance: what has been decided is told to it as an event.
"""
