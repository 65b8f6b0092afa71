"""Producer, consumer and admin client: the public Python API."""
