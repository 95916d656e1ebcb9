"""The tables, a file each: a class of reads, and one of writes that extends it.

Method names mean the same for all: `get` one by its key, `get_many`, `all` with optional
conditions, `keys`, `of_<owner>`, `count...`, `has`, `put` and `put_all` (replace what is stored),
`insert`, `delete` and `delete_all`.
"""
