"""Tools for testing programs that are built on oncelog: crash points and more. Shipped and public."""
