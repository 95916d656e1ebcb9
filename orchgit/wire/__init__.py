"""gRPC between servers, workers and agents: method table, msgpack codec, channels.

Entry points: `methods` (every method with its request and reply structs), `channel` (client side),
`serve` (generic handlers for a table of implementations). The structs are the schema.
"""
