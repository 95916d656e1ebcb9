"""The audit log: who asked for what, over HTTP, and what the answer was."""
