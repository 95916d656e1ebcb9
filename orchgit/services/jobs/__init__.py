"""What is done to jobs: registering, stopping, scaling, dispatching, planning without doing."""
