"""One token becomes one on every outgoing edge."""

from assent.engine.nodes.base import Handler


class ParallelSplit(Handler):
    """Done as soon as it is entered."""
