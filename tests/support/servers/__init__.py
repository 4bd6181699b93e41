"""Servers that tests talk to over real HTTP."""
