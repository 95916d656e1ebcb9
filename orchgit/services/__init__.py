"""Use cases: everything a caller may ask of the cluster, in one room for each kind of object.

The HTTP API, the RPC servicers and gitops call them. A use case reads a snapshot, decides, and
proposes at most one log entry; it never writes state itself. Entry points: `services.Services`
(what a server hands out) and the functions of each module, which take a `UseCaseContext`.
"""
