"""Measure the CPU that our handler and another library's handler add to a request.

    python -m benchmarks.peers.request_path openinference [--rounds 40]

The module runs in the other library's environment.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import logging
import os
import warnings
from dataclasses import replace
from typing import Any

from opentelemetry import metrics

from benchmarks.added_cpu import PLAIN, Tracing, Variant, both, measure, openinference
from benchmarks.handler_overhead import QUESTION, build_chain, handler, invoke

load = importlib.import_module
DEAD = "http://127.0.0.1:9"


def langfuse(tracing: Tracing) -> Variant:
    keys = {"public_key": "pk-bench", "secret_key": "sk-bench", "base_url": DEAD}
    exported = {"tracer_provider": tracing.provider, "span_exporter": tracing.exporter}
    client = load("langfuse").Langfuse(**keys, **exported)
    callback = load("langfuse.langchain").CallbackHandler(public_key="pk-bench")
    return Variant([callback], settle=client.flush)


def traceloop(tracing: Tracing) -> Variant:
    # Traceloop's instrumentor cannot be switched off.
    load("opentelemetry.instrumentation.langchain").LangchainInstrumentor()
    module = load("opentelemetry.instrumentation.langchain.callback_handler")
    meter, tracer = metrics.get_meter("bench"), tracing.provider.get_tracer("bench")
    histograms = (meter.create_histogram("duration"), meter.create_histogram("tokens"))
    return Variant([module.TraceloopCallbackHandler(tracer, *histograms)])


def deepeval() -> Variant:
    # DeepEval keeps the last trace. Without a key, DeepEval sends nothing.
    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "CONFIDENT_TRACE_VERBOSE": "0"}
    testing = load("deepeval.tracing.trace_test_manager").trace_testing_manager
    testing.test_name = "bench"

    def clear() -> None:
        if not testing.test_dict:
            raise RuntimeError("DeepEval recorded no trace of the request.")
        testing.test_dict = None

    return Variant([load("deepeval.integrations.langchain").CallbackHandler()], clear=clear)


def variant(peer: str, tracing: Tracing) -> Variant:
    if peer == "deepeval":
        return deepeval()
    makers = {"langfuse": langfuse, "traceloop": traceloop}
    made = makers[peer](tracing) if peer in makers else openinference("langchain", tracing)

    def clear() -> None:
        if not tracing.exporter.get_finished_spans():
            raise RuntimeError(f"{peer} recorded no span of the request.")
        tracing.exporter.clear()

    return replace(made, clear=clear)


def compared(peer: str, rounds: int) -> dict[str, Any]:
    tracing = Tracing()

    def unseen() -> None:
        if tracing.exporter.get_finished_spans():
            raise RuntimeError(f"{peer} recorded a request without its handler.")

    plain = {PLAIN: Variant(clear=unseen)}
    variants = {**both(handler), peer: variant(peer, tracing), **plain}
    request = functools.partial(invoke, build_chain(), QUESTION)
    costs = measure(request, variants, rounds)
    plain_ms = costs.pop(PLAIN).process
    rows = [
        {"name": n, "added_ms": one.process, "share": one.process / plain_ms, "wall_ms": one.wall}
        for n, one in costs.items()
    ]
    return {"peer": peer, "rounds": rounds, "plain_ms": plain_ms, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    print(json.dumps(compared(options.peer, options.rounds)), flush=True)
    # Skip exit hooks, because an exporter would wait for a back end that does not run.
    os._exit(0)


if __name__ == "__main__":
    main()
