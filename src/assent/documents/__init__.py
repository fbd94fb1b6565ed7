"""Documents from outside parties: what is required, what was handed in, and its review.

Requirements are rows that people, results and workflows move. Every move is written in one place, with its event, and
wakes the instance that it belongs to.
"""
