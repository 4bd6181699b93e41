"""The life of a request: intake, decision, queue, evaluation, settlement."""
