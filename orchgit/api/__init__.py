"""The HTTP API: Nomad's `/v1` in its shapes and statuses, and `/v1/gitops`.

Routes read snapshots and call services; they decide nothing about the cluster. Entry point:
`app.create_app`. One file per resource in `routes/`; errors become statuses in `errors.py` alone.
"""
