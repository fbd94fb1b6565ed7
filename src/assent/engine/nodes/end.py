"""The way out: a token that reaches it is gone, and with the last one the instance is completed."""

from assent.engine.nodes.base import Handler


class End(Handler):
    """Done as soon as it is entered."""
