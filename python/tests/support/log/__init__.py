"""Logs on each store, what tests do to them, and what goes wrong below."""
