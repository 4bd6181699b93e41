"""What is redacted and what is not: cases in several languages."""
