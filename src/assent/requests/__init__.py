"""Requests to outside parties, the results that they send back, and what these point to.

Requests are opened and closed by the runtime with their steps; results come in from every door into one queue, and a
worker folds them. Nothing here advances an instance: a decision reaches it as an event.
"""
