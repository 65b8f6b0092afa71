"""What operators need: inspection, metrics, repair, restore, rebuilding a lost ledger. All of it works without a query."""
