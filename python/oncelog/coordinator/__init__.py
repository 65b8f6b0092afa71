"""The transaction coordinator: a library over znodes, without a server. Any process may run any step."""
