"""Job files: HCL2 (or its JSON form) in, the API-shaped job out.

`jobspec.parse.parse_job` is the entry: text -> tree -> evaluated, decoded job. `canonicalize` adds
the API's defaults and makes the typed job, `validate` applies the server's rules. Everything here
is pure: files are read only through the `FileAccess` the caller passes in, or not at all.
"""
