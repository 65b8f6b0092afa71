"""What tests share, by purpose. No module here tests anything."""
