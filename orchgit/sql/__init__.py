"""Questions in SQL about the cluster (`orchgit sql`, `/v1/operator/sql`).

`views.py` documents the tables that a question may name. `worker.py`, a process of its own with
limits of time and memory, copies the columns that a question names into an empty database in
memory, and runs the question there: nothing else can be read, whatever the question says.
`runner.py` starts the process and returns its answer.
"""
