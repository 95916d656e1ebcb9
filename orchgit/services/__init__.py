"""Use cases: everything a caller may ask of the cluster, one per file.

Called by the HTTP API, the RPC servicers and gitops. A use case reads a snapshot, decides, and
proposes at most one log entry; it never writes state itself. Entry points: `services.Services`
(what a server hands out) and the functions of each file, which take a `UseCaseContext`.
"""
