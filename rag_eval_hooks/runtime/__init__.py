"""Way of a request: intake, decision, queue, evaluation, end."""
