"""Pipeline shapes of the frameworks, each run for real and compared with what must come out."""
