"""Fixed limits on memory and time.

Objects read the limits in their constructors, so that tests can set smaller values.
"""

from __future__ import annotations

# Requests.
QUEUE_CHARS = 100_000_000  # characters that all queued samples may hold; see also `queue_size`
HELD_SPANS = 1000  # spans held at once; `hold_timeout` bounds the time of each
OPEN_INTERACTIONS = 10_000  # requests open at once; the oldest is abandoned
INTERACTION_SECONDS = 600.0  # seconds after which an unfinished request is abandoned
# Two hundred texts of the default `max_text_chars`: as much as an agent reads in a long run.
INTERACTION_CHARS = 4_000_000  # characters per open request; later text is dropped
CONTEXTS = 50  # contexts per sample: more than prompts contain

# Telemetry. Some back ends cut attribute values at 4 KiB.
EXPLANATION_CHARS = 4000  # characters of one metric's explanation
CONTENT_CHARS = 20_000  # characters of one attribute with content; longer texts end in `[...]`
EXPLAINED_REQUESTS = 10_000  # recent requests that `RagEval.explain` can explain

# Feedback. Users rate an answer while they read. Texts should not stay longer.
FEEDBACK_CHARS = 10_000_000  # characters of all requests that feedback can join
FEEDBACK_SAMPLES = 1000  # finished requests that feedback can join
FEEDBACK_SECONDS = 3600.0  # seconds for which feedback can join a finished request

# Judges and sinks.
JUDGE_RETRIES = 3  # retries of a judge call after a 429, a 5xx or a timeout
SINK_QUEUE_CHARS = 10_000_000  # characters of results queued in memory for one sink
SINK_SECONDS = 3.0  # timeout of one sink call or platform request, in seconds
SINK_RETRY_SECONDS = 60.0  # seconds of retries to a failing platform or, with a spool, to any sink

# Spool and fleet.
SPOOL_BYTES = 512_000_000  # bytes of one spool file; further samples are counted as `undurable`
SHIPPED_SAMPLES = 1000  # samples waiting for the broker or for results at once
# Long enough to survive a platform outage overnight.
SINK_KEEP_SECONDS = 86_400.0  # seconds that a result in the spool waits for a sink
