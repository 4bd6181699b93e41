"""Mixed load for as long as one likes, at ten times what the judge can take, with faults.

One application process serves LangChain chains, LangGraph graphs, LlamaIndex queries and
interactions opened by hand: answers, errors, cancellations, closed streams, interrupts. Blocks
without a handler and with each way to evaluate take turns in random order, so that all share what
else the machine does. The judge is an HTTP server in a process of its own that works on a few
calls at once; it answers 429 with Retry-After, 500, broken JSON and never, and is stopped and
killed in between. Spool, budget and sinks are on.

It fails where the books do not add up to the unit, an exception reaches the application, memory
grows beyond a bound, or something is left at the end. It never fails for being slow.

    python -m benchmarks.soak [--minutes 30] [--block 6] [--latency 0.65] [--no-model] [--growth 40]

By default 15 requests a second come, of which 12 are to be evaluated; with `--latency 0.3`, 33.
"""

from __future__ import annotations
