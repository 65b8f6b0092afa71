"""The transaction coordinator: a library over znodes, with no server. Any process may carry out any step."""
