"""Fixed limits on memory and time.

Modules read a limit at each use, so tests can set smaller values.
"""

from __future__ import annotations

# Requests.
QUEUE_CHARS = 100_000_000  # maximum number of characters in all queued samples
HELD_SPANS = 1000  # maximum number of spans that wait for scores
OPEN_INTERACTIONS = 10_000  # maximum number of open requests; the oldest is abandoned
INTERACTION_SECONDS = 600.0  # seconds until an open request is abandoned
# A long agent run reads about two hundred texts of `max_text_chars`.
INTERACTION_CHARS = 4_000_000  # maximum number of characters per open request
CONTEXTS = 50  # maximum number of contexts per sample

# Telemetry. Some back ends cut attribute values at 4 KiB.
EXPLANATION_CHARS = 4000  # maximum number of characters per explanation
CONTENT_CHARS = 20_000  # maximum number of characters per content attribute
EXPLAINED_REQUESTS = 10_000  # number of recent requests that `RagEval.explain` remembers

# Feedback. Users rate an answer soon, and texts should not stay in memory for long.
FEEDBACK_CHARS = 10_000_000  # maximum number of characters in all remembered requests
FEEDBACK_SAMPLES = 1000  # maximum number of remembered requests
FEEDBACK_SECONDS = 3600.0  # seconds until a finished request is forgotten

# Judges and sinks.
JUDGE_RETRIES = 3  # maximum retries of a judge call
SINK_QUEUE_CHARS = 10_000_000  # maximum number of characters queued in memory per sink
SINK_SECONDS = 3.0  # timeout of one sink call or platform request, in seconds
SINK_RETRY_SECONDS = 60.0  # seconds of retries to a failing platform or sink

# Spool and fleet.
SPOOL_BYTES = 512_000_000  # maximum size of a spool file, in bytes
SHIPPED_SAMPLES = 1000  # maximum number of samples at the broker and workers
# A platform may be down overnight.
SINK_KEEP_SECONDS = 86_400.0  # seconds until a result in the spool expires
