"""Tools to test what is built on oncelog: crash points and more. Shipped and public."""
