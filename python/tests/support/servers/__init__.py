"""Real servers, in processes of their own, and a proxy that strikes between."""
