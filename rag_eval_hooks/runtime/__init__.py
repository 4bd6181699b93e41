"""The pipeline of a request: intake, sampling, queue, evaluation and outcome."""
