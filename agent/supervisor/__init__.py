"""The process that owns a node's tasks and outlives the agent.

`main` is started by `client.SupervisorClient` and imports nothing outside this package but a few
built-in modules: one idle supervisor must cost less than a task. Modules on its side (`main`,
`daemon`, `tasks`, `children`, `journal`, `log_files`, `cgroup_files`, `proc`, `codec`) may not
import `typing`, `enum`, `re`, `asyncio`, `msgspec` or anything that does.
Only `client` and `protocol` belong to the agent's side.
"""
