"""Attacks on judges by the texts that they judge, and a judge server that obeys what it can."""
