"""Use cases of jobs: registering, stopping, scaling, dispatching, and planning without doing."""
