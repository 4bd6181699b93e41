"""`rag-eval-hooks doctor --capture`: shows the sample captured from one question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from opentelemetry.trace import NoOpTracerProvider

from rag_eval_hooks.cli.arguments import UsageError
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts
from rag_eval_hooks.datasets.chain import asking, named_object
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.text.folding import toml_of

_DATA: Final = toml_of("doctor.toml", __package__ or "")
_LIMITS: Final = ("max_text_chars", "redact", "redact_regions", "redact_ids_key")
_SHOWN: Final = 160


def show_capture(
    name: str, question: str | None, given: Mapping[str, str], *, as_json: bool
) -> int:
    """Ask a pipeline one question, print the captured sample, and return the exit code."""
    if question is None or not question.strip():
        raise UsageError("--capture needs --question TEXT, such as a question of your users.")
    pipeline, output, problem = named_object(name, "--capture"), None, None
    samples: list[Sample] = []
    with _capturing(given, samples) as evals, asking(pipeline, evals, "--capture") as ask:
        try:
            output = ask(question, {})
        except Exception as error:  # noqa: BLE001 - the host's edge: a pipeline of the user's
            problem = f"{type(error).__name__}: {error}"
        evals.flush(60.0)
        stats = evals.stats()
    reasons = {**stats.dropped, **stats.failed}
    reasons |= {"without_retrieval": stats.without_retrieval} if stats.without_retrieval else {}
    keys = [str(key) for key in output] if isinstance(output, Mapping) else []
    if as_json:
        shown = {"samples": [asdict(one) for one in samples], "without": reasons}
        document = {**shown, "raised": problem, "output_keys": keys}
        print(json.dumps(document, indent=2, default=str, ensure_ascii=False))
    else:
        print("\n".join(_lines(samples, reasons, problem, keys)))
    return int(problem is not None or all(one.contexts is None for one in samples))


def _capturing(given: Mapping[str, str], taken: list[Sample]) -> RagEval:
    config = RagEvalConfig(**given_texts(RagEvalConfig, given))
    limits = {name: getattr(config, name) for name in _LIMITS}

    def captured(_: Sample) -> float:
        return 1.0

    return RagEval(
        captured,
        sinks=[lambda sample, _outcomes: taken.append(sample)],
        tracer_provider=NoOpTracerProvider(),
        config=RagEvalConfig(**limits, evaluation_span="off"),
    )


def _lines(
    samples: list[Sample], reasons: Mapping[str, int], problem: str | None, keys: list[str]
) -> Iterator[str]:
    for number, sample in enumerate(samples, 1):
        if len(samples) > 1:
            yield f"Sample {number} of {len(samples)}. For one sample per request, set the"
            yield "handler's option root= to the name of the call that is a request.\n"
        yield from _described(sample)
    if problem is not None:
        yield f"The pipeline raised {problem}"
        yield "  If the pipeline needs more than a question, write a function that takes only the"
        yield "  question and calls the pipeline, and pass it as --capture MODULE:FUNCTION"
    for reason, count in reasons.items():
        text, part = _DATA["no_sample"].get(reason, ("", "contexts"))
        yield f"{f'{count} more without a sample' if samples else 'No sample'}: {reason}"
        if text:
            yield from (f"  {text}", f"  To name the {part} yourself: {_DATA['remedies'][part]}")
    if not samples and not reasons and problem is None:
        yield "No sample: no LangChain or LlamaIndex call was captured, and nothing was recorded"
        yield f"  To name the contexts yourself: {_DATA['remedies']['contexts']}"
    if samples:
        yield "\nIf a part is wrong:"
        yield from (f"  {part}: {remedy}" for part, remedy in _DATA["remedies"].items())
        yield from [f"Keys of the output: {', '.join(keys)}"] if keys else []


def _described(sample: Sample) -> Iterator[str]:
    yield f"question: {_short(sample.question)}"
    yield f"  {_rule(sample.question_source, _DATA['question_rules'])}"
    count = "no retrieved text was seen" if sample.contexts is None else len(sample.contexts)
    yield f"contexts: {count}"
    if sample.context_source is not None:
        yield f"  {_rule(sample.context_source, _DATA['context_rules'])}"
    for number, context in enumerate(sample.contexts or (), 1):
        facts = [f"{len(context.text)} characters"]
        facts += [f"id {context.id}"] if context.id else []
        facts += [] if context.score is None else [f"score {context.score:.3g}"]
        yield f"  [{number}] {_short(context.text)} ({', '.join(facts)})"
    yield f"answer: {'none was found' if sample.answer is None else _short(sample.answer)}"
    if sample.truncated:
        cut = ", ".join(sample.truncated)
        yield f"truncated: {cut} (by limits or unreadable texts)"


def _rule(source: str | None, rules: Mapping[str, str]) -> str:
    return f"{source}: {rules.get(source or '', 'see docs/capture.md')}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
