"""What people send to stop a server, an agent or their neighbours' jobs: nothing of it may.

Each module is one table, by name: `job_files` (text of a job file), `trees` (files of a push),
`templates` (text of a template block), `patterns` (expressions and what they are matched with) and
`requests` (method, path and body of one HTTP request). To add a case, add a line to the table; the
tests run every line against the real parts, with the bounds of `bounds`:

- no server, and no other client's request, waits for longer than 100 ms because of it;
- all processes together take no more than 300 MB for it;
- it is refused with a message, or accepted, and the next honest one is dealt with as ever.

A case that is to be refused says which words the refusal has. One that is slow by nature (the limit
that ends it is a time) says so in its comment, since the suite waits for it.
"""
