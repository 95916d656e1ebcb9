"""The handlers: what each kind of log entry does to the state.

A handler is `(txn, command, effects) -> result`. It runs on the applier's thread, on every server,
in log order, so it reads no clock and no random source and makes up no id (a test reads the syntax
trees). It refuses an entry by raising an OrchgitError; then nothing of the entry remains.
"""
