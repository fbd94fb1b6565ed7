"""The library of ready workflows: one folder each, with its files and a page of what it does."""
