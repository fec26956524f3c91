"""What several tests need: problems to solve, slow references to compare with, `efc` as a command."""
