"""May this commit be applied now? Pure decisions on windows, approvals, room and health."""
