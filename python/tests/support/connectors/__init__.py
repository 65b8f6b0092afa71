"""What tests of a connector share; tests of the core leave it alone."""
