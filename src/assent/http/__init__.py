"""The HTTP API. `routing` tells how a request is handled; `routes` has one module for each noun.

Nothing is decided here that the kernel or the runtime decides: a handler turns a request into a command, and its result
into a body.
"""
