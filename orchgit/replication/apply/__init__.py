"""Handlers: what each kind of log entry does to the state.

A handler is `(txn, command, effects) -> result`. It runs on the applier's thread, on every server,
in log order: no clock, no random source, no made-up id (a test reads the syntax trees). It may
refuse by raising an OrchgitError; then nothing of the entry remains.
"""
