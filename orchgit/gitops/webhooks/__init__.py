"""Webhooks of git hosts: one pure module per host, which checks a signature before it parses.

A webhook is a hint only: it wakes the sources that it names, which then ask their remote. Nothing
of its body is trusted, fetched or stored.
"""
