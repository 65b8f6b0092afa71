"""``oncelog kafka``: the commands."""
