"""What git hosts send when a branch moves: one pure module per host, checked before it is parsed.

A webhook is only ever a hint: it wakes the sources it names, which then ask their remote. Nothing
in its body is trusted, fetched or stored.
"""
