"""Every kind of log entry, by area: what it carries, and since which version servers understand it.

`commands/jobs.py` has the kinds of one area and their union, `apply/jobs.py` what each does to the
state, and so for every area. `codec.py` joins the unions into `Command`, and encodes and decodes
it. A kind, once released, keeps its fields: what has another effect is a new kind.
"""
