"""Programs that the tests start as processes of their own, to kill or to stop them."""
