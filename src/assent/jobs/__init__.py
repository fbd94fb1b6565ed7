"""Jobs: the one queue, of which effects, tasks and results are kinds: one life, one claim, one lease, one dead letter.

This room claims, settles, rescues and revives jobs of every kind, and never runs one: the rooms of the kinds do that.
"""
