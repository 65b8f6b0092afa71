"""Producer, consumer and admin: what users of the Python API hold."""
