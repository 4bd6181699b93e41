"""Limits that are no settings: they bound memory and time, and no application needs other values.

Code reads them from this module when an object is made, so that a test can set smaller ones.
"""

from __future__ import annotations

# Requests.
QUEUE_CHARS = 100_000_000  # characters that all queued samples may hold; see also `queue_size`
HELD_SPANS = 1000  # spans held at once; `hold_timeout` bounds the time of each
OPEN_INTERACTIONS = 10_000  # requests open at once; the oldest is abandoned
INTERACTION_SECONDS = 600.0  # seconds after which a request without an end is abandoned
# Two hundred texts of the default `max_text_chars`: as much as an agent reads in a long run.
INTERACTION_CHARS = 4_000_000  # characters that one open request may hold; later text is left out
CONTEXTS = 50  # contexts of one sample: more than prompts hold

# Telemetry. Some back ends cut attribute values at 4 KiB.
EXPLANATION_CHARS = 4000  # characters of one metric's explanation
CONTENT_CHARS = 20_000  # characters of one attribute with content; longer texts end in `[...]`
EXPLAINED_REQUESTS = 10_000  # recent requests that `RagEval.explain` can explain

# Feedback. Users who answer do so while they read; their texts should not stay for longer.
FEEDBACK_CHARS = 10_000_000  # characters of all requests that feedback can join, oldest first out
FEEDBACK_SAMPLES = 1000  # ended requests that feedback can join
FEEDBACK_SECONDS = 3600.0  # seconds for which feedback can join an ended request

# Judges and sinks.
JUDGE_RETRIES = 3  # further tries of a judge call after a 429, a 5xx or a timeout
SINK_QUEUE_CHARS = 10_000_000  # characters of results queued in memory for one sink
SINK_SECONDS = 3.0  # seconds for one call of a sink, or one request to a platform
SINK_RETRY_SECONDS = 60.0  # seconds for which a failing platform, with a spool any sink, is tried

# Spool and fleet.
SPOOL_BYTES = 512_000_000  # bytes of one spool file; further samples are counted as `undurable`
SHIPPED_SAMPLES = 1000  # samples that may await the broker, or their results, at once
# Over a night, until somebody has seen that a platform is down.
SINK_KEEP_SECONDS = 86_400.0  # seconds for which a result in the spool waits for a sink
