"""Devices of the node that the scheduler gives to tasks: one plugin per kind.

A plugin finds devices and says what a task that was given some may use; the scheduler decides whose
they are, so a plugin keeps no record of that. `registry` finds the plugins there are.
"""
