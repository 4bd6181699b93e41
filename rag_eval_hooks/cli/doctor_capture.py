"""`rag-eval-hooks doctor --capture`: shows the sample captured from one question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from opentelemetry.trace import NoOpTracerProvider

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts
from rag_eval_hooks.datasets.chain import asking, named_object
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.sample import Sample

_QUESTION_RULES: Final[Mapping[str, str]] = {
    "recorded": "given to evals.interaction()",
    "chosen": "the handler's option question= names it",
    "input": "in the input of the outermost call",
    "prompt": "the text of the input that reached a retriever or the model",
    "state": "in the state of the outermost graph",
    "query": "the first retriever's query, because the input has no text",
}
_CONTEXT_RULES: Final[Mapping[str, str]] = {
    "recorded": "recorded by the application",
    "chosen": "the handler's option contexts= names them",
    "prompt": "their texts are in the prompt of the answering model",
    "shingles": "the prompt shows parts of them: four consecutive words that no other document has",
    "structure": "no prompt shows them; the answer cites them as its sources",
    "last_list": "no prompt shows any; they are the last step's list",
    "step": "a step or tool returned some of them: database rows, a search, or a fixed text",
    "earlier_turn": "an earlier turn stored them in the state, and the prompt shows them",
}
_REMEDIES: Final[Mapping[str, str]] = {
    "question": 'pass the handler question="KEY", where KEY is a key of the input, or a function '
    "that takes the input",
    "contexts": 'set one option of the handler: contexts="KEY" (a key of a step\'s output), '
    'retrieval_tools=["NAME"] (for an agent) or as_context=FUNCTION (for your own objects). Or '
    "call record_contexts(documents) after a search",
    "answer": 'pass the handler answer="KEY", where KEY is a key of the output, or a function that '
    "takes the output",
}
_NO_SAMPLE: Final[Mapping[str, tuple[str, str]]] = {
    "without_retrieval": ("no retrieved text was seen, so there is no sample", "contexts"),
    "no_question": ("no text of the input looks like the question", "question"),
    "capture_failed": ("an object of the application could not be read", "contexts"),
}
_LIMITS: Final = ("max_text_chars", "redact", "redact_regions", "redact_ids_key")
_SHOWN: Final = 160


def show_capture(
    name: str, question: str | None, given: Mapping[str, str], *, as_json: bool
) -> int:
    """Ask a pipeline one question, print the captured sample, and return the exit code.

    Raises:
        UsageError: The question is missing.
        ConfigError: The pipeline does not exist or is not callable, or a setting is invalid.
    """
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
        text, part = _NO_SAMPLE.get(reason, ("", "contexts"))
        yield f"{f'{count} more without a sample' if samples else 'No sample'}: {reason}"
        if text:
            yield from (f"  {text}", f"  To name the {part} yourself: {_REMEDIES[part]}")
    if not samples and not reasons and problem is None:
        yield "No sample: no LangChain or LlamaIndex call was captured, and nothing was recorded"
        yield f"  To name the contexts yourself: {_REMEDIES['contexts']}"
    if samples:
        yield "\nIf a part is wrong:"
        yield from (f"  {part}: {remedy}" for part, remedy in _REMEDIES.items())
        yield from [f"Keys of the output: {', '.join(keys)}"] if keys else []


def _described(sample: Sample) -> Iterator[str]:
    yield f"question: {_short(sample.question)}"
    yield f"  {_rule(sample.question_source, _QUESTION_RULES)}"
    count = "no retrieved text was seen" if sample.contexts is None else len(sample.contexts)
    yield f"contexts: {count}"
    if sample.context_source is not None:
        yield f"  {_rule(sample.context_source, _CONTEXT_RULES)}"
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
