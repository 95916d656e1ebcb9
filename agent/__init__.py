"""The node agent: takes allocations from the servers, runs and reports on their tasks.

Entry point: `agent.agent`. The modules here never import a server's packages; what both share is
the model. Importing this package costs nothing: the supervisor, which must stay tiny, is inside it.
"""
