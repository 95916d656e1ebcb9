"""Following git: a commit of a source becomes one replicated log entry, and its health a rollout.

`gitops.py` wires everything. The packages, from the bottom up:

- `git`: repositories (libgit2, in `repository.py` only) and git child processes (`process.py` only)
- `parsing`: job files to jobs, in processes with limits; `rollouts`: how a commit's jobs are doing
- `mirrors`: each server's copies of the repositories, and the exchange of objects between servers
- `commits`: what a commit changes, and the log entry that carries it out
- `sources`, `remote`, `webhooks`: the ways in

Decisions are pure: `commits/actions.py`, `commits/plan.py`, `rollouts/health.py`,
`mirrors/rules.py`, `git/refs.py`. Nothing here places work: gitops proposes `ApplyStage` entries
and watches what becomes of them.
"""
