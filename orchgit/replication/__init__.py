"""The replicated log: commands, the state machine that applies them, and Raft under it.

Entry points: `commands.Command` (what can be in the log), `replicated.ReplicatedState` (propose a
command, follow what was applied). Nothing here decides; it orders, stores and applies.
"""
