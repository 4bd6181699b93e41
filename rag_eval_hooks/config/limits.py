"""Limits that are no settings: they bound memory and cost, and no application needs other values.

Code reads them from this module when an object is made, so that a test can set smaller ones.
"""

from __future__ import annotations

__all__ = [
    "CONTEXTS",
    "EXPLAINED_TRACES",
    "EXPLANATION_CHARS",
    "FEEDBACK_CHARS",
    "FEEDBACK_SECONDS",
    "HELD_SPANS",
    "INTERACTION_CHARS",
    "OPEN_INTERACTIONS",
    "QUEUE_CHARS",
    "SHIPPED_SAMPLES",
    "SINK_KEEP_SECONDS",
    "SINK_QUEUE_CHARS",
]

# An application that wants to hold fewer samples sets `queue_size`; this only keeps a queue of
# very long samples below some 400 MB.
QUEUE_CHARS = 100_000_000
"""Characters of text that all waiting samples may hold together."""

# `hold_timeout` bounds the time of each, so more of them means more than 100 requests a second.
HELD_SPANS = 1000
"""Spans that may wait for their scores at once; one more ends at once."""

# Far more requests than one process answers at once: reached only if ends are never reported, which
# `interaction_ttl` cleans up.
OPEN_INTERACTIONS = 10_000
"""Interactions that may be open at once; the oldest is abandoned."""

# Two hundred texts of the default `max_text_chars`: what an agent reads in a long run.
INTERACTION_CHARS = 4_000_000
"""Characters of text that one open interaction may hold; later text is left out."""

# More passages than prompts hold; each is bounded by `max_text_chars`.
CONTEXTS = 50
"""Contexts of one sample."""

# Attribute values of some back ends are cut at 4 KiB.
EXPLANATION_CHARS = 4000
"""Characters of one metric's explanation in telemetry."""

# A few words each, so some megabytes.
EXPLAINED_TRACES = 10_000
"""Recent traces that `RagEval.explain` can explain."""

# `feedback_samples` bounds the number; the oldest lose their text first and can still be joined.
FEEDBACK_CHARS = 10_000_000
"""Characters of text of all interactions that feedback can join."""

# Users who answer do so while they read. Texts of users should not stay in memory for longer.
FEEDBACK_SECONDS = 3600.0
"""Seconds for which feedback can join an ended interaction."""

# Some thousand results of a sink that is down; more of them wait in the spool, if there is one.
SINK_QUEUE_CHARS = 10_000_000
"""Characters of results that may wait in memory for one sink."""

# At most some seconds of traffic: the rest waits in the broker, or in the queue while it is down.
SHIPPED_SAMPLES = 1000
"""Samples that may wait at once for the broker's confirmation, or for their results."""

# Over a night, until somebody has seen that a platform is down.
SINK_KEEP_SECONDS = 86_400.0
"""Seconds for which a result in the spool waits for a sink."""
