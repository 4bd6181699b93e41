"""Accepted samples and undelivered results on disk: one SQLite file for each process."""
