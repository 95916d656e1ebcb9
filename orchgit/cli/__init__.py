"""The command line. It talks HTTP only; `agent` and `dev` are the two commands that run a server.

Entry point: `start.main`. One file per noun in `commands/`, loaded when its command is asked for.
"""
