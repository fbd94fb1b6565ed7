"""A choice: its edges carry the conditions."""

from assent.engine.nodes.base import Handler


class Condition(Handler):
    """Done as soon as it is entered."""
