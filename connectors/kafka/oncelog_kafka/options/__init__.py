"""The options of the sink, and the client settings that follow from them."""
