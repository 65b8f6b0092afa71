"""The code of README.md and docs/, run as it stands."""
