"""Cases of personal data and of texts that look like it, in several languages."""
