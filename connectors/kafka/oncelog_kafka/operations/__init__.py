"""What operators need, with or without a running query: inspection, metrics, repair, restore, lost ledgers."""
