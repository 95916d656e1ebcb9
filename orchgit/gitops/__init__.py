"""Following git: a commit of a source becomes one replicated log entry, and its health a rollout.

Entry point: `gitops.Gitops`. `repo.py` is the only module that touches libgit2, `git_process.py`
the only one that starts git. Decisions (`actions`, `rollout_rules`, `refs`, `webhooks/`) are pure.
Nothing here places work: it proposes `ApplyRollout` and watches what becomes of it.
"""
