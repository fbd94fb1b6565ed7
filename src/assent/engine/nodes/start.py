"""The way in."""

from assent.engine.nodes.base import Handler


class Start(Handler):
    """Done as soon as it is entered."""
