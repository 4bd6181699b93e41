"""Pipeline of a request: decide, queue, evaluate, deliver, count."""
