"""What the leader does with the state, and the workers that decide.

Pure parts: `eval_broker`, `blocked_evals`, `plan_check`, `deployment_rules`, `drain_rules`,
`heartbeat_timers`. Loops around them propose log entries and read snapshots; `leader` starts them
when this server gains leadership and stops them when it loses it. Everything a loop holds in memory
is rebuilt from the state then. `worker` is the entry point of the scheduler processes.
"""
