"""The HTTP door: sign-in, problems, paging, keys for repeats, and one file of routes per noun.

Nothing is decided here that the kernel or the runtime decides; a route turns a request into a command, and what
comes of it into an answer.
"""
