"""Which of the feasible nodes is best, and what exactly it gives."""
