"""Run and score a demo RAG pipeline over the handbook of an invented ferry line.

    make demo
    make demo FRAMEWORK=llama-index VIEWER=phoenix

The demo needs no API key and no network. A scripted model gives some wrong answers on purpose.
"""

from __future__ import annotations

import argparse
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from examples.demo.handbook import QUESTIONS
from examples.demo.otlp_file import OtlpFileExporter, file_provider
from examples.demo.viewer import SERVICE, ViewerError, jaeger_links, phoenix_link, running, wait
from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks.cli.main import main as command

INTERRUPTED = 130


def main() -> None:
    """Run the demo. Exit with code 1 if a request was not evaluated."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--framework", choices=("langchain", "llama-index"), default="langchain")
    parser.add_argument("--viewer", choices=("phoenix", "jaeger"), help="start this viewer")
    parser.add_argument("--viewer-command", metavar="PATH", help="executable of the viewer")
    parser.add_argument("--otlp-endpoint", metavar="URL", help="send spans to this URL")
    parser.add_argument(
        "--sink", action="append", default=[], help="send scores to this sink (repeatable)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="ask only the first N questions")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.viewer is None:
        with suppress(KeyboardInterrupt):
            raise SystemExit(run(arguments))
        raise SystemExit(INTERRUPTED)
    # At SIGTERM, raise `KeyboardInterrupt`, so that the demo stops the viewer before it exits.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running(arguments.viewer, arguments.viewer_command) as (page, endpoint):
            arguments.otlp_endpoint = endpoint
            if arguments.viewer == "phoenix":
                arguments.sink.append(f"phoenix:{page}")
            code = run(arguments)
            is_phoenix = arguments.viewer == "phoenix"
            print(f"in Phoenix: {phoenix_link(page)}" if is_phoenix else jaeger_links(page))
            wait()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ViewerError as error:
        parser.error(str(error))
    raise SystemExit(code)


def run(arguments: argparse.Namespace) -> int:
    """Ask all questions, wait for the scores, print a report, and return the exit code."""
    traces, results = (arguments.output / name for name in ("traces.jsonl", "results.jsonl"))
    arguments.output.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (traces, results):
        path.unlink(missing_ok=True)
    if arguments.otlp_endpoint is None:
        provider = file_provider(traces, SERVICE)
        trace.set_tracer_provider(provider)
    else:
        provider = setup_tracing(endpoint=arguments.otlp_endpoint, service_name=SERVICE)
        provider.add_span_processor(BatchSpanProcessor(OtlpFileExporter(traces)))
    pipeline = import_module(f"examples.demo.{arguments.framework.replace('-', '_')}_pipeline")
    with RagEval(
        ["ragas.faithfulness"],
        sinks=["console", f"jsonl:{results}", *arguments.sink],
        thresholds={"ragas.faithfulness": 0.8},
        capture_content=True,
    ) as evals:
        ask = pipeline.build(evals)
        for one in QUESTIONS[: arguments.limit]:
            known = {"question_id": one.id, "reference": one.reference, "mistake": one.mistake}
            ask(one.question, {key: value for key, value in known.items() if value is not None})
        evals.flush()
        stats = evals.stats()
    # The exporters of metrics and log events would report errors after the viewer has stopped.
    for made in (provider, metrics.get_meter_provider(), _logs.get_logger_provider()):
        getattr(made, "shutdown", bool)()
    command(["report", str(results)])
    print(f"\ntraces   {traces}  (OTLP/JSON; the scores are on the RAG spans)")
    print(f"results  {results}  (rag-eval-hooks report {results} -o report.html)")
    # A refusal has no claim, so its metric is undefined.
    judged = stats.scored + stats.failed.get("undefined", 0)
    return int(not 0 < stats.offered == judged)


if __name__ == "__main__":
    main()
