"""First attempts of new users are understood, or answered by what to write."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from rag_eval_hooks import (
    ConfigError,
    NotScored,
    RagEval,
    RagEvalConfig,
    RagEvalSpanProcessor,
    Sample,
    Score,
)
from rag_eval_hooks.delivery.console import ConsoleSink
from rag_eval_hooks.judges.callable_judge import CallableJudge
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.testing import ScriptedJudge
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from rag_eval_hooks_llama_index import SuiteEvaluator, enable
from tests.support.evaluation import sample
from tests.support.scripts import run_script

ShutDown = Callable[[RagEval], RagEval]
WORDS = ("quay", "guarantee", "Fähre", "票价", "ticket", "Preis", "日数", "orchard")


def _word(seed: int) -> str:
    return random.Random(seed).choice(WORDS)


@pytest.mark.parametrize("seed", range(5))
def test_documents_of_any_kind_are_contexts(seed: int) -> None:
    """Texts, mappings and documents of both frameworks become equal contexts of a sample."""
    text = f"The {_word(seed)} opens at {seed}."
    node = TextNode(text=text)
    for documents in (
        [text],
        ({"text": text},),
        [{"page_content": text, "metadata": {}}],
        [{"content": text}],
        [Document(page_content=text)],
        [node],
        [NodeWithScore(node=node, score=None)],
    ):
        (context,) = Sample(question="q", contexts=documents).contexts or ()  # type: ignore[arg-type]
        assert context.text == text


@pytest.mark.parametrize("seed", range(5))
def test_names_of_ragas_are_understood(seed: int) -> None:
    """A mapping with the names of ragas describes the same sample."""
    word = _word(seed)
    theirs: dict[str, Any] = {
        "user_input": f"Where is the {word}?",
        "retrieved_contexts": [f"The {word} is in Rome."],
        "response": f"{word}: Rome.",
        "reference": "Rome.",
    }
    ours = Sample(
        question=theirs["user_input"],
        contexts=theirs["retrieved_contexts"],
        answer=theirs["response"],
        reference="Rome.",
    )
    assert Sample.from_dict(theirs) == Sample.of(theirs) == Sample.of(ours) == ours
    with pytest.raises(TypeError, match=r"must be a Sample, or a mapping .*, not list"):
        Sample.of([theirs])  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
async def test_fields_are_evaluated_as_their_sample(seed: int, shut_down_after: ShutDown) -> None:
    """`evaluate` takes the fields of a sample as keywords, and refuses what is none by name."""
    evals = shut_down_after(RagEval("lexical"))
    named: dict[str, Any] = {"question": "q", "answer": f"see {_word(seed)} [{seed}]"}
    expected = evals.evaluate(Sample(**named))
    assert evals.evaluate(**named) == expected
    assert await evals.aevaluate(**named) == expected
    with pytest.raises(TypeError, match="anwser"):
        evals.evaluate(question="q", anwser="a")
    with pytest.raises(TypeError, match="a sample or keyword fields, not both; got answer"):
        evals.evaluate({"question": "q"}, answer="a")
    with pytest.raises(TypeError, match=r"must be a Sample, or a mapping .*, not NoneType"):
        evals.evaluate()


def test_a_mapping_is_offered_and_evaluated_as_its_sample(shut_down_after: ShutDown) -> None:
    """`evaluate` and `offer` take mappings; what cannot be read raises nothing and is counted."""
    evals = shut_down_after(RagEval("lexical"))
    plain = {"question": "q", "answer": "see page 1"}
    assert evals.evaluate(plain) == evals.evaluate(Sample(question="q", answer="see page 1"))
    assert evals.offer(plain)
    bad: list[Any] = [None, 5, [], {"answer": "a"}, {"question": 3}, object()]
    assert not any(map(evals.offer, bad))
    assert evals.flush(300)
    stats = evals.stats()
    assert (stats.offered, dict(stats.dropped)) == (1 + len(bad), {"capture_failed": len(bad)})


@pytest.mark.parametrize(
    "arguments",
    [
        {"tags": numpy.array(["a", "b"])},
        {"metadata": 5},
        {"metadata": numpy.array([1, 2])},
        {"name": numpy.array([1, 2])},
        {"question": 10**5000},
        {"question": numpy.array(["q"])},
        {"metadata": {"session_id": "\ud800"}},
    ],
    ids=[f"argument {number}" for number in range(7)],
)
def test_no_argument_of_an_interaction_raises_into_the_request(
    arguments: dict[str, Any], shut_down_after: ShutDown
) -> None:
    """An argument that cannot be read is left out and counted; the interaction goes on."""
    evals = shut_down_after(RagEval("lexical", tracer_provider=TracerProvider()))
    with evals.interaction(**({"question": "q"} | arguments)) as it:
        it.contexts(["c"])
        it.answer("a")
    evals.flush(300)
    assert evals.stats().offered == 1


class BrokenProvider(TracerProvider):
    """Raises when it is asked for a tracer, and has neither meters nor loggers."""

    def get_tracer(self, *args: Any, **options: Any) -> Any:
        raise OSError("no tracer today")


@pytest.mark.parametrize("kind", ["tracer_provider", "meter_provider", "logger_provider"])
def test_a_broken_provider_costs_what_it_provides_and_no_more(
    kind: str, shut_down_after: ShutDown
) -> None:
    """A broken provider raises nowhere; samples are scored, and the failure is counted."""
    providers: dict[str, Any] = {kind: BrokenProvider()}
    evals = shut_down_after(RagEval("lexical", **providers))
    with evals.interaction(_word(len(kind))) as it:
        it.answer("see page 3")
    assert evals.flush(300)
    stats = evals.stats()
    assert stats.scored == 1
    assert [one for one in stats.incidents if " of the provider: " in one]


@pytest.mark.parametrize("name", ["sample_id", "trace_id"])
def test_ids_of_any_text_are_taken(name: str, shut_down_after: ShutDown) -> None:
    """A lone surrogate in an id, which cannot be encoded, loses no sample."""
    evals = shut_down_after(RagEval("lexical"))
    assert evals.offer(Sample(question="q", answer="a", **{name: "\ud800"}))  # type: ignore[arg-type]
    assert evals.flush(300)
    assert evals.stats().pending == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_misspelt_metric_is_answered_with_the_one_that_was_meant(seed: int) -> None:
    """A metric's last word, or one with a letter wrong, is proposed as it has to be written."""
    chance = random.Random(seed)
    metric = chance.choice([m.id for m in ALL_METRICS if m.id.startswith("ragas.")])
    last = metric.partition(".")[2]
    at = chance.randrange(1, len(last))
    for written in (last, f"{last[:at]}{last[at - 1]}{last[at:]}", last.title()):
        with pytest.raises(ConfigError, match=r"did you mean 'ragas\.[a-z_]+'\?") as error:
            RagEval(written.lower())
        assert metric in str(error.value) or "context_precision" in metric


def test_a_minus_takes_metrics_away() -> None:
    """Names that begin with `-` take away what the others bring; something has to be left."""
    evals = RagEval(["-ragas.noise_sensitivity", "ragas"], ScriptedJudge())
    names = evals.evaluate(sample(reference="r")).keys()
    assert "ragas.noise_sensitivity" not in names
    assert "ragas.faithfulness" in names
    alone = RagEval("-ragas.faithfulness").evaluate(sample()).keys()
    assert {name.partition(".")[0] for name in alone} == {"ragas"}
    assert "ragas.faithfulness" not in alone
    with pytest.raises(ConfigError, match=r"'-ragas'.*at least one"):
        RagEval(["ragas", "-ragas"])
    with pytest.raises(ConfigError, match="did you mean"):
        RagEval(["ragas", "-ragas.noise_sensitivty"])
    evals.shutdown(1)


def test_ragas_is_what_is_evaluated_by_default() -> None:
    """Without names, the metrics of one suite that the sample can feed are evaluated."""
    evals = RagEval()
    outcomes = evals.evaluate(sample())
    assert outcomes
    assert all(name.startswith("ragas.") for name in outcomes)
    assert not any(
        isinstance(one, NotScored) and one.cause.value == "missing_input"
        for one in outcomes.values()
    )
    evals.shutdown(1)


def test_a_function_of_a_sample_is_a_metric() -> None:
    """Sync or async, it gives a number, a truth value, an outcome or None."""

    def length(one: Sample) -> float:
        return min(1.0, len(one.answer or "") / 10)

    async def polite(one: Sample) -> bool:
        return "please" in (one.answer or "")

    def nothing(_: Sample) -> None:
        return None

    def wild(_: Sample) -> float:
        return 7.0

    class Half:
        def __call__(self, _: Sample) -> float:
            return 0.5

    evals = RagEval([length, polite, nothing, wild, lambda _: 0.5, Half()])
    outcomes = evals.evaluate({"question": "q", "answer": "a" * 5})
    assert outcomes["own.length"].value == 0.5
    assert outcomes["own.polite"].value == 0.0
    assert outcomes["own.lambda"].value == outcomes["own.Half"].value == 0.5
    assert RagEval(length).evaluate({"question": "q"}).keys() == {"own.length"}
    for wrong, shown in ((Half, "Half"), (RagEvalConfig(), "RagEvalConfig"), (5, "int")):
        with pytest.raises(ConfigError, match=f"metrics is .*{shown}.*, but must be .*functions"):
            RagEval(wrong)  # type: ignore[arg-type]
    for name, cause in (("own.nothing", "undefined"), ("own.wild", "metric_failed")):
        one = outcomes[name]
        assert isinstance(one, NotScored)
        assert (one.cause, one.value) == (cause, None)
    evals.shutdown(1)


@pytest.mark.parametrize(
    ("judge", "advice"),
    [
        ("gpt-4o-mini", "did you mean 'openai:gpt-4o-mini'?"),
        ("anthropic:claude-x", "RagEval(judge=LangChainJudge(ChatAnthropic(...)))"),
        ("gemini:pro", "LangChainJudge(ChatGoogleGenerativeAI(...))"),
        ("claude-x", "LangChainJudge(ChatAnthropic(...))"),
        ("vertexai:x", "LangChainJudge(ChatVertexAI(...))"),
        ("opneai:x-1", "did you mean 'openai:x-1'?"),
        ("Olama:x:7b", "did you mean 'ollama:x:7b'?"),
        ("groq:x", "'openai:<model>' and judge_base_url"),
        (FakeListChatModel(responses=["x"]), "LangChainJudge(model)"),
        (ScriptedJudge, "an instance of Judge"),
        (5, "an instance of Judge"),
    ],
    ids=str,
)
def test_a_judge_that_is_none_says_what_to_write(judge: Any, advice: str) -> None:
    """The error for a judge names the way to the model that was meant."""
    with pytest.raises(ConfigError, match=r"^judge is .*" + re.escape(advice)):
        RagEval(judge=judge)


def test_a_function_is_a_judge() -> None:
    """A function of messages becomes a `CallableJudge`."""
    evals = RagEval(judge=lambda messages: "no JSON")
    assert repr(evals) == f"<RagEval judge={CallableJudge(lambda _: '').name!r} sample_rate=1>"


def test_mistakes_with_handlers_say_what_to_write() -> None:
    """Objects in place of `RagEval` name what is expected."""
    doors: list[Callable[[Any], object]] = [
        RagEvalCallbackHandler,
        RagEvalCallbackHandler.enable,
        enable,
        lambda wrong: SuiteEvaluator(wrong, "ragas.faithfulness"),
        lambda wrong: RagEvalSpanProcessor(SpanProcessor(), wrong),
    ]
    words = {"RagEvalConfig": RagEvalConfig(), "the class RagEval": RagEval, "x": "x"}
    for shown, wrong in words.items():
        for door in doors:
            with pytest.raises(
                ConfigError, match=f"^evals is '{shown}', but must be a RagEval object"
            ):
                door(wrong)


def test_a_handlers_class_in_callbacks_is_said_once(tmp_path: Path) -> None:
    """A handler's class among callbacks captures and raises nothing; the log says what to write."""
    printed = run_script(
        tmp_path,
        """
        import logging, sys
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from rag_eval_hooks_langchain import RagEvalCallbackHandler

        logging.basicConfig(stream=sys.stdout)
        model = FakeListChatModel(responses=["x"])
        for _ in range(3):
            model.invoke("x", {"callbacks": [RagEvalCallbackHandler]})
        """,
    )
    assert printed.count("RagEvalCallbackHandler(evals)") == 1


def test_the_console_shows_the_worst_score_first_with_its_reason(
    shut_down_after: ShutDown,
) -> None:
    """Question, answer, then scores from the worst: claims that failed and why, and no others."""
    out = io.StringIO()

    def bad(_: Sample) -> Score:
        claims = [
            {"claim": "It is blue.", "supported": False, "reason": "it is red"},
            {"claim": "It is big.", "supported": True, "reason": ""},
        ]
        return Score(value=0.5, normalised=0.5, explanation={"claims": claims})

    evals = shut_down_after(RagEval([lambda _: 1.0, bad], sinks=[ConsoleSink(out)]))
    evals.offer({"question": "Which colour?", "answer": "It is blue. It is big."})
    assert evals.flush(300)
    text = out.getvalue()
    assert text.index("Which colour?") < text.index("own.bad") < text.index("own.lambda")
    assert "It is blue. (it is red)" in text
    assert text.count("It is big.") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
def test_the_console_prints_any_text_on_any_stream(
    encoding: str, shut_down_after: ShutDown
) -> None:
    """Characters that a stream cannot encode, or that command a terminal, are replaced."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    evals = shut_down_after(RagEval([lambda _: 0.25], sinks=[ConsoleSink(file)]))
    for word in WORDS:
        evals.offer({"question": f"{word}?", "answer": f"{word} \ud800 \x1b[31m\x9b2J\r."})
    assert evals.flush(300)
    shown = raw.getvalue().decode(encoding)
    assert shown.count("own.lambda") == len(WORDS)
    assert "quay?" in shown
    assert not {"\x1b", "\x9b", "\r"} & set(shown)


def test_a_sample_that_feeds_no_metric_is_told_what_it_lacks(shut_down_after: ShutDown) -> None:
    """By default metrics without input are left out, unless nothing else would be said."""
    evals = shut_down_after(RagEval())
    outcomes = evals.evaluate({"question": "How wide?", "context": ["9 m"], "answer": "9 m."})
    assert "contexts" in repr(outcomes)
    assert all(isinstance(one, NotScored) for one in outcomes.values())
    assert outcomes["ragas.faithfulness"].detail == "the sample has no contexts"  # type: ignore[union-attr]


def test_the_console_is_a_sink_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """`sinks=["console"]` prints to standard output, and a name near it is proposed."""
    evals = RagEval([lambda _: 0.25], sinks=["console"])
    evals.offer({"question": "Which colour?", "answer": "Blue."})
    assert evals.flush(300)
    assert "own.lambda" in capsys.readouterr().out
    evals.shutdown(1)
    for written, meant in (
        ("stdout", "console"),
        ("consle", "console"),
        ("scores.jsonl", "jsonl:scores.jsonl"),
        ("json:scores.json", "jsonl:scores.json"),
        ("phenix:http://localhost:1", "phoenix:http://localhost:1"),
    ):
        with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
            RagEval(sinks=[written])
    with pytest.raises(ConfigError) as error:
        RagEval(sinks=["phenix:http://user:secret@host/"])
    assert "secret" not in str(error.value)
    with pytest.raises(ConfigError, match="nothing behind the name"):
        RagEval(sinks=["console:x"])
