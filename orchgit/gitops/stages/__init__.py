"""The order of a commit's jobs: the graph of their dependencies, and the stages that it gives."""
