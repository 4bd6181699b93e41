"""Limits that are no settings: they bound memory and time, and no application needs other values.

Code reads them from this module when an object is made, so that a test can set smaller ones.
"""

from __future__ import annotations

# An application that wants to hold fewer samples sets `queue_size`.
QUEUE_CHARS = 100_000_000
"""Characters of text that all queued samples may hold together."""

HELD_SPANS = 1000
"""Spans that may be held at once; `hold_timeout` bounds the time of each."""

# Reached only if ends are never reported, which `INTERACTION_SECONDS` cleans up.
OPEN_INTERACTIONS = 10_000
"""Requests that may be open at once; the oldest is abandoned."""

# Two hundred texts of the default `max_text_chars`: what an agent reads in a long run.
INTERACTION_SECONDS = 600.0
"""Seconds after which a request without an end is abandoned."""

INTERACTION_CHARS = 4_000_000
"""Characters of text that one open request may hold; later text is left out."""

CONTEXTS = 50
"""Contexts of one sample: more than prompts hold."""

# Attribute values of some back ends are cut at 4 KiB.
EXPLANATION_CHARS = 4000
"""Characters of one metric's explanation in telemetry."""

CONTENT_CHARS = 20_000
"""Characters of one span attribute with content; longer texts are cut and end in `[...]`."""

EXPLAINED_TRACES = 10_000
"""Recent traces that `RagEval.explain` can explain."""

# The oldest requests lose their text first and can still be joined.
FEEDBACK_CHARS = 10_000_000
"""Characters of text of all requests that feedback can join."""

FEEDBACK_SAMPLES = 1000
"""Ended requests that feedback can join."""

# Users who answer do so while they read. Texts of users should not stay in memory for longer.
FEEDBACK_SECONDS = 3600.0
"""Seconds for which feedback can join an ended request."""

JUDGE_RETRIES = 3
"""Further tries of a judge call after a 429, a 5xx or a timeout."""

SINK_QUEUE_CHARS = 10_000_000
"""Characters of results that may be queued in memory for one sink; further ones use the spool."""

SINK_SECONDS = 3.0
"""Seconds for one call of a sink, or one request to a platform."""

SINK_RETRY_SECONDS = 60.0
"""Seconds for which a failing platform is sent the same scores again; with a spool, any sink."""

SPOOL_BYTES = 512_000_000
"""Bytes of one spool file; further samples are evaluated from memory and counted as `undurable`."""

# The rest stays in the broker, or in the queue while the broker is down.
SHIPPED_SAMPLES = 1000
"""Samples that may await the broker's confirmation, or their results, at once."""

# Over a night, until somebody has seen that a platform is down.
SINK_KEEP_SECONDS = 86_400.0
"""Seconds for which a result in the spool waits for a sink."""
