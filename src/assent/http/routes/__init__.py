"""The routes of the HTTP API, one module for each noun: its bodies, who may read it, and its handlers."""
