"""Many simulated nodes in one process, for benchmarks and trials: `python -m agent.simulated`."""
