"""Mistakes at run time: one WARNING per kind, with the line of the application's own file."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool

from rag_eval_hooks import (
    CallableJudge,
    Cascade,
    ConfigError,
    Criterion,
    Findings,
    NotScored,
    RagEval,
    Sample,
    Score,
    setup_tracing,
)
from rag_eval_hooks.capture.tool_kinds import ToolKind, tool_kind
from rag_eval_hooks.cli.main import main
from rag_eval_hooks.errors import unknown
from rag_eval_hooks.results import AlertSink
from rag_eval_hooks_langchain import LangChainJudge, RagEvalCallbackHandler, record_contexts
from tests.support.evaluation import sample

SECRET = "a text of the application"


def half(_: Sample) -> float:
    return 0.5


@pytest.fixture
def evals() -> Iterator[RagEval]:
    with RagEval(metrics=[half]) as made:
        yield made


# Code of an application, and what the one WARNING says besides its place. Texts of the
# application are in SECRET.
MISTAKES: dict[str, str] = {
    "evals.submit(42)": "a mapping with question, contexts and answer, not int",
    "evals.submit([{'question': SECRET}])": "not list. Pass one sample to each call",
    "evals.submit({SECRET: SECRET, 'answer': SECRET})": "A sample needs a 'question'",
    "evals.submit(answer=SECRET)": "A sample needs a 'question'",
    "evals.submit({'question': SECRET, 'contexts': [SECRET, {SECRET: SECRET}]})": (
        "contexts must be texts or objects with a text, not dict. Its text must be under 'text', "
        "'page_content', 'content'. It is contexts[1], called"
    ),
    "evals.submit(question=SECRET, contexts=SECRET)": "Put the text into a list",
    "evals.submit(question=SECRET, contexts=[[SECRET]])": "Pass one flat list",
    "evals.submit(question=SECRET, contexts=[(0.9, SECRET)])": "not float. It is contexts[0]",
    "evals.submit(question=SECRET, answer=AIMessage(SECRET))": "Pass its text: `.content`",
    "evals.submit(question=SECRET, answer={'output': SECRET})": "Pass its text: `['output']`",
    "evals.submit(SECRET, [SECRET], SECRET)": "4 were given. Write: evals.submit(question=...",
    "evals.submit(question=' ', contexts=[SECRET], answer=SECRET)": "the question is blank",
    "evals.submit(SECRET)": "a mapping with question, contexts and answer, not str",
    "evals.feedback(SECRET, comment=SECRET)": "argument. Write: evals.feedback(trace_id",
    "evals.submit(question=SECRET, contexts=[SECRET], anwser=SECRET)": (
        "A sample has no field 'anwser'; did you mean 'answer'?"
    ),
    "evals.submit({'question': SECRET, 'contexts': [SECRET], 'anwser': SECRET})": (
        "submit: the sample has no answer (but metadata 'anwser'"
    ),
    "evals.submit({'question': SECRET, 'contexts': [SECRET], 'reply': SECRET})": (
        "submit: the sample has no answer (but metadata 'reply', which may be meant"
    ),
    "evals.submit(question=SECRET, contexts=retriever)": (
        "not Retriever. Pass its documents: retriever.invoke(question), called"
    ),
    "RunnableLambda(lambda _: record_contexts(retriever)).invoke(SECRET, config(evals))": (
        "not Retriever. Pass its documents: retriever.invoke(question), called"
    ),
    "record_contexts([SECRET])": "record_contexts() recorded nothing outside of a run",
    "with evals.interaction(SECRET) as it: [it.answer(SECRET) for _ in range(4)]": (
        "only the last call counts; join the parts of a stream first"
    ),
    "with evals.interaction(SECRET, metadata={'user_id': retriever}): pass": (
        "metadata 'user_id' must be a text or a number, not Retriever (the key is omitted"
    ),
    "[retriever.invoke(SECRET, config(evals)) for _ in range(1 + evals.flush())]": (
        "A retriever ran with the handler, but no model did"
    ),
    "evals.submit(question=SECRET, status=SECRET)": "status must be one of ok, error",
    "evals.submit(question=SECRET, latency=-1)": "latency must be a number of seconds, 0 or more",
    "evals.submit(question=SECRET, metadata=SECRET)": "metadata must be a mapping, not str",
    "evals.submit(question=SECRET, ended_at=SECRET)": "nanoseconds since the epoch",
    "evals.submit(question=SECRET, session_id=[SECRET])": "session_id must be str, not list",
    "evals.shutdown(); evals.submit(sample(answer=SECRET))": "request after shutdown",
    "evals.submit(sample()); evals.shutdown(); evals.submit(sample())": "request after shutdown",
    "it = evals.interaction(SECRET); it.answer(SECRET)": "(write: with evals.interaction(",
    "with evals.interaction(SECRET) as it: it.contexts([SECRET])\nit.answer(SECRET)": (
        "it.answer() was called after its with block"
    ),
    "with evals.interaction(SECRET) as it: it.contexts([SECRET])": (
        "interaction without an answer (call it.answer(text), or it.answer(None)"
    ),
    "with evals.interaction(SECRET) as it: it.answer(SECRET)": (
        "interaction without contexts (call it.contexts(documents), or it.contexts([])"
    ),
    "with evals.interaction(' ') as it: it.answer(SECRET)": "no question",
    "with evals.interaction({SECRET: 1}) as it: it.answer(SECRET)": "question must be a text",
    "with evals.interaction(SECRET, tags=5): pass": "tags must be a list of texts, not int",
    "with evals.interaction(SECRET, contxts=SECRET): pass": (
        "interaction() has no option 'contxts'; did you mean 'contexts'?"
    ),
    "with evals.interaction(SECRET, session_id=SECRET): pass": "pass metadata={'session_id': ...}",
    "with evals.interaction(SECRET) as it: it.contexts([{SECRET: SECRET}])": (
        "contexts must be texts or objects with a text, not dict"
    ),
    "with evals.interaction(SECRET) as it: it.contexts()": (
        "it.contexts() takes the documents, or [] if retrieval found none"
    ),
    "with evals.interaction(SECRET) as it: it.answer(coroutine())": (
        "answer must be a text, not coroutine. Await it first"
    ),
    "with evals.interaction(SECRET) as it: it.answer(SECRET, SECRET)": (
        "takes 2 positional arguments but 3 were given"
    ),
    "with evals.interaction(SECRET) as it: it.anwser = SECRET": "did you mean 'answer'?",
    "evals.feedback(SECRET)": "Feedback needs a score, a label or a reference",
    "evals.feedback(SECRET, score=SECRET)": "score must be a number, not str",
    "evals.feedback(None, score=1)": "the id must be a trace id or sample id, not NoneType",
    "evals.feedback(SECRET, score=1)": "feedback for an unknown id (pass a trace id or sample id",
    "evals.feedback(True, score=1)": "Pass sample.sample_id. submit() returns whether the sample",
    "evals.shutdown(); evals.feedback(SECRET, score=1)": "feedback after shutdown",
    "evals.explain(SECRET)": "explain: an unknown id (pass a trace id or sample id",
    "evals.explain(None)": "the id must be a trace id or sample id, not NoneType",
    "llama_index.enable(evals); ask.invoke(SECRET); llama_index.disable()": (
        "No call of LlamaIndex reached rag_eval_hooks_llama_index.enable(). For LangChain, write"
    ),
    "with evals.interaction(SECRET, contexts=[SECRET]): pass": "as it: it.contexts(...)",
    "asyncio.run(evaluate(evals))": "evaluate() blocks the running event loop (write: await",
}


ask = RunnableLambda(str)


class Retriever(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[Document]:
        return [Document(SECRET)]


def config(evals: RagEval) -> Any:
    return {"callbacks": [RagEvalCallbackHandler(evals)]}


async def evaluate(evals: RagEval) -> Any:
    return evals.evaluate(sample())


def coroutine() -> Any:
    async def model() -> str:
        return SECRET

    made = model()
    made.close()
    return made


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake_is_logged_once_with_the_line_of_the_caller(
    code: str, evals: RagEval, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rag_eval_hooks")
    called = compile(code, "/app/mistake.py", "exec")
    names = {**globals(), "retriever": Retriever(), "record_contexts": record_contexts}
    names["llama_index"] = import_module("rag_eval_hooks_llama_index")
    for _ in range(3):
        exec(called, {**names, "evals": evals, "__name__": "app"})
        assert evals.flush(60)
    lines = [one.getMessage() for one in caplog.records if MISTAKES[code] in one.getMessage()]
    assert len(lines) == 1
    place = __file__ if "evaluate" in code else "/app/mistake.py:"
    assert place in lines[0] or "no model" in lines[0]
    assert not [one for one in caplog.records if SECRET in one.getMessage()]


# A call that raises, and what its error says: it shows the value, as the caller sees it.
ERRORS: dict[str, str] = {
    "evals.evaluate('a question')": "A sample must be a Sample, or a mapping with .* not str",
    "evals.evaluate(question='q', latency='fast')": "latency must be .* not str. It is 'fast'",
    "evals.evaluate({'question': 'q', 'contexts': [{'body': 'x'}]})": "It has body",
    "evals.evaluate(question='q', metrics=5)": "metrics must be ids .* not int. It is 5",
    "evals.evaluate(question='q', metrics='own.hafl')": "did you mean 'own.half'?",
    "evals.evaluate(question='q')['own.hafl']": "'own.hafl'; did you mean 'own.half'?",
    "evals.evaluate(question='q').half": r"Write: outcomes\['own.half'\].value",
    "asyncio.run(awaited(evals))": r"Write: await evals.aevaluate\(",
    "evals.evaluate('q', ['c'], 'a')": r"4 were given. Write: evals.evaluate\(question=",
    "evals.interaction()": "Write: with evals.interaction",
    "setattr(evals, 'sample_rate', 0.1)": r"cannot be changed. Write: RagEval\(sample_rate=",
    "setattr(evals, 'sinks', [])": r"cannot be changed. Write: RagEval\(sinks=",
    "RagEvalCallbackHandler(evals).start_trace": r"Write: rag_eval_hooks_llama_index.enable",
    "evals.shutdown(wait=True)": r"argument. Write: evals.shutdown\(timeout=5\), in seconds",
    "RagEvalCallbackHandler(evals, metrics=['ragas'])": r"'metrics'. Write: RagEval\(metrics=",
    "RagEvalCallbackHandler(metrics=['ragas'])": "'evals'. Write: RagEvalCallbackHandler",
    "Score(0.5) > 0.8": "Score is not a number. Its number is .value",
    "f'{Score(0.5):.2f}'": "Score is not a number. Its number is .value",
    "NotScored('timeout') < 1": r"no value \(timeout\): check isinstance\(outcome, Score\)",
    **{
        f"RagEval({kind}_provider={wrong})": rf"^{kind}_provider is .* with get_{kind}\(\)"
        for kind in ("tracer", "meter", "logger")
        for wrong in ("'http://localhost:4318'", "RagEval", "5")
    },
    **{
        f"RagEval(metrics=[lambda {takes}: 0.5])": (
            rf"^metrics is '<lambda>\({re.escape(takes)}\)', but must be a function of one argument"
        )
        for takes in ("", "question, answer", "*, sample")
    },
    "setup_tracing('my-app')": "endpoint is 'my-app'.* to name the service, pass service_name=",
    "Sample('q', ['c'])": r"^Sample\(\) takes 2 .* Write: Sample\(question, contexts=",
    "Score(0.5, 'fine')": r"^Score\(\) takes 2 .* Write: Score\(0.8, explanation=",
    "evals.answer('a')": "^RagEval has no 'answer'; there are aevaluate",
    "evals.interaction('q').context(['c'])": "^ManualInteraction has no .* mean 'contexts'",
    "RagEval(evals.config)": r"write RagEval\(config=",
    "evals.__reduce_ex__(2)": "RagEval cannot be pickled. Create one in each process",
    "setattr(evals.config, 'sample_rate', 1)": r"Write: RagEval\(sample_rate=...\)",
    "RagEval(sinks=[object()])": r"object has no deliver\(\) and close\(\)",
    "evals.start_trace": r"or rag_eval_hooks_llama_index.enable\(evals\)",
    "LangChainJudge(ChatPromptTemplate(['{a} {b}']) | ask)": "must be the chat model itself",
    "evals.flush('5')": "timeout must be a number of seconds, not str. It is '5'",
}


LANGCHAIN = {"LangChainJudge": LangChainJudge, "ChatPromptTemplate": ChatPromptTemplate}


async def awaited(evals: Any) -> Any:
    return await evals.evaluate(question="q")


@pytest.mark.parametrize("code", ERRORS)
def test_mistake_in_an_inline_call_raises_its_cause(code: str, evals: RagEval) -> None:
    with pytest.raises((TypeError, ConfigError, LookupError, AttributeError), match=ERRORS[code]):
        eval(code, {**globals(), "evals": evals, "setup_tracing": setup_tracing, **LANGCHAIN})


@given(st.text(st.characters(categories=["Ll"]), min_size=4), st.integers(0, 3))
def test_unknown_name_names_the_similar_one_or_all(name: str, at: int) -> None:
    misspelt = name[:at] + "Z" + name[at + 1 :]
    assert f"did you mean {name!r}?" in unknown("It has no", misspelt, ["Q", name])
    assert unknown("It has no", "0123456", ["Q", name]).endswith(f"there are Q, {name}.")


@given(answer=st.text(st.characters(codec="utf-8"), min_size=1), chunk=st.text(min_size=1))
def test_assigned_answer_and_contexts_count_as_calls(answer: str, chunk: str) -> None:
    seen: list[Any] = []
    with RagEval(metrics=[half], sinks=[seen.append]) as evals:
        with evals.interaction("q") as it:
            it.contexts = [chunk]  # type: ignore[method-assign,assignment]
            it.answer = answer  # type: ignore[method-assign,assignment]
        assert evals.flush(60)
        assert not evals.stats().incidents
    judged = seen[0].sample
    assert (judged.answer, [one.text for one in judged.contexts]) == (answer, [chunk])


def test_answer_of_none_and_an_exception_are_no_forgotten_answers(evals: RagEval) -> None:
    with evals.interaction("q") as it:
        it.answer(None)
    with pytest.raises(KeyError), evals.interaction("q"):
        raise KeyError
    assert evals.flush(60)
    assert not evals.stats().incidents


def test_configuration_that_no_request_meets_is_logged_once(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text(json.dumps({"question": "Why?", "reference": "So."}))

    def silent(_: Sample) -> None: ...

    for question in (SECRET, "why? "):
        with RagEval([half, silent], references=str(file)) as made, capture_warnings() as seen:
            for _ in range(9):
                made.submit(question=question, contexts=[SECRET], answer=SECRET)
            assert made.flush(60)
        assert "metric own.silent: none of the first 3 samples has a score" in "".join(seen)
        assert len(seen) == (2 if question == SECRET else 1)
        assert (f"references: no question so far is in {file}" in "".join(seen)) == (len(seen) == 2)


@contextmanager
def capture_warnings() -> Iterator[list[str]]:
    seen: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("rag_eval_hooks")
    logger.addHandler(handler)
    yield seen
    logger.removeHandler(handler)


@given(st.sampled_from(["RAGEVAL_", "RAG_EVALS_", "RAGEVAL_HOOKS_"]))
def test_variable_of_another_prefix_is_warned_of_where_it_ends_as_a_setting(prefix: str) -> None:
    with pytest.MonkeyPatch.context() as patched, capture_warnings() as seen:
        patched.setenv(f"{prefix}SAMPLE_RATE", "0.1")
        patched.setenv(f"{prefix}SEED", "7")
        RagEval().shutdown(0)
    assert seen == [f"{prefix}SAMPLE_RATE is not read; did you mean RAG_EVAL_SAMPLE_RATE?"]


@given(text=st.text(st.characters(codec="utf-8"), min_size=1))
def test_answer_of_a_message_is_its_text(text: str) -> None:
    seen: list[Any] = []
    messages = [AIMessage(text), SimpleNamespace(text=text), SimpleNamespace(response=text)]
    with RagEval(metrics=[half], sinks=[seen.append]) as evals:
        for message in messages:
            with evals.interaction("q") as it:
                it.contexts("a chunk", "another")
                it.answer(message)
        assert evals.flush(60)
    assert [one.sample.answer for one in seen] == [text] * 3
    assert {len(one.sample.contexts) for one in seen} == {2}


def test_unread_answer_is_never_scored_low(evals: RagEval) -> None:
    """What cannot be read is marked as cut, and no metric takes it for the whole answer."""
    seen: list[Any] = []
    with RagEval(metrics=[half], sinks=[seen.append]) as other:
        with other.interaction("q") as it:
            it.contexts(object())
            it.answer(object())
        assert other.flush(60)
    assert seen[0].sample.cut_parts == ("contexts", "answer")


@pytest.mark.parametrize(
    ("key", "field"), [("context", "contexts"), ("anwser", "answer"), ("refrence", "reference")]
)
def test_lacking_field_names_the_similar_key_of_the_metadata(
    key: str, field: str, evals: RagEval
) -> None:
    with RagEval("ragas") as made:
        outcomes = made.evaluate({"question": "q", key: "x", "note": SECRET})
    details = " ".join(one.detail for one in outcomes.values())  # type: ignore[union-attr]
    assert f"{field} (but metadata '{key}'" in details
    assert "note" not in details


@pytest.mark.parametrize("table", ["rag_eval_hooks", "tool.rag_eval_hooks", "rag_eval"])
def test_settings_below_a_table_are_refused_by_its_name(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[{table}]\nsample_rate = 0.1\n")
    monkeypatch.setenv("RAG_EVAL_CONFIG_FILE", str(file))
    with pytest.raises(ConfigError, match="there is no table"):
        RagEval()


def refusing(_: Any) -> str:
    raise KeyError(SECRET)


def returned(output: Any, _: Any) -> Any:
    return output


NAMES = st.text(st.characters(categories=["Ll"]), min_size=5, max_size=12)


@given(NAMES, st.integers(0, 4), st.sampled_from(["question", "contexts", "answer", "root"]))
def test_option_that_matches_nothing_names_the_one_meant(name: str, at: int, option: str) -> None:
    """Each option of a handler is set to a drawn name with one wrong letter."""
    wrong = name[:at] + "Z" + name[at + 1 :]
    with RagEval(metrics=[half]) as evals:
        for written in (wrong, name):
            options: Any = {option: written}
            handler = RagEvalCallbackHandler(evals, **options)
            found = [Document("a chunk")] if option == "contexts" else "a"
            output: Any = {name: found}
            ask: Any = RunnableLambda(partial(returned, output))
            ask.with_config(run_name=name).invoke({name: "q"}, {"callbacks": [handler]})
            assert evals.flush(60)
            (told,) = evals.stats().incidents
            assert repr(wrong) in told
            assert f"did you mean {name!r}?" in told


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (
            lambda evals: [evals],
            "not a callback handler. Write: callbacks=",
        ),
        (RagEvalCallbackHandler, 'Write a list: config={"callbacks": [handler]}'),
    ],
)
def test_wrong_object_as_callbacks_raises_the_fix_in_the_call(
    given: Any, fix: str, way: str, evals: RagEval
) -> None:
    step, told = RunnableLambda(str), {"callbacks": given(evals)}
    with pytest.raises(AttributeError, match=re.escape(fix)):
        asyncio.run(step.ainvoke(1, told)) if way == "ainvoke" else step.invoke(1, told)  # type: ignore[arg-type]


def test_handler_class_as_a_callback_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Handler(RagEvalCallbackHandler): ...

    told: Any = {"callbacks": [Handler]}
    for _ in range(2):
        RunnableLambda(str).invoke("q", told)
    (line,) = [one.getMessage() for one in caplog.records]
    assert f"passed as a class and captures nothing, at {__file__}:" in line
    assert line.endswith("Write: callbacks=[Handler(evals)]")


@pytest.mark.parametrize("is_reached", [False, True])
def test_handler_that_no_run_reaches_is_named_at_shutdown(*, is_reached: bool) -> None:
    with RagEval(metrics=[half], sinks=[]) as evals:
        told = config(evals)
        RunnableLambda(str).invoke("q", told if is_reached else {})
        evals.flush()
        assert not evals.stats().incidents
    lines = [one for one in evals.stats().incidents if f"handler created at {__file__}:" in one]
    assert len(lines) == 1 - is_reached


@pytest.mark.parametrize("key", ["session_id", "thread_id", "user_id", "question_id", "reference"])
def test_object_as_an_id_in_metadata_is_left_out(key: str) -> None:
    seen: list[Any] = []
    told: Any = config(evals := RagEval(metrics=[half], sinks=[seen.append]))
    for value in (Retriever(), 7, "7"):
        ask: Any = RunnableLambda(Retriever().invoke) | RunnableLambda(str)
        ask.invoke("When?", {**told, "metadata": {key: value}})
        assert evals.flush(60)
    field = "session_id" if key == "thread_id" else key
    assert [getattr(one.sample, field) for one in seen] == [None, "7", "7"]
    (one,) = evals.stats().incidents
    assert one == f"metadata {key!r} must be a text or a number, not Retriever"
    evals.shutdown()


@given(NAMES, NAMES)
def test_only_named_tools_give_text_and_a_name_of_no_tool_is_told(name: str, other: str) -> None:
    """The text neither counts as the tool's nor as that of the step that passes it on."""
    assume(tool_kind(name, "") is ToolKind.UNKNOWN)

    def search(query: str) -> str:
        """Search the timetable."""
        return "The ferry to Skarn leaves at 07:40 from the north quay."

    searching = StructuredTool.from_function(search, name=name)
    for named in (None, [name], [name[:-1] + "Z"], [other, name]):
        with RagEval(metrics=[half], sinks=[]) as evals:
            handler = RagEvalCallbackHandler(evals, retrieval_tools=named)
            model = FakeListChatModel(responses=["At 07:40."])
            ask: Any = searching | RunnableLambda(lambda text: f"{text} When?") | model
            ask.invoke({"query": "When?"}, {"callbacks": [handler]})
            assert evals.flush(60)
            told = [one for one in evals.stats().incidents if f"did you mean {name!r}?" in one]
            assert evals.stats().offered == (named is None or name in named)
            assert len(told) == (named == [name[:-1] + "Z"])


@pytest.mark.parametrize("wrong", [{SECRET: 1}, 5, [SECRET], KeyError(SECRET)])
def test_as_context_of_a_wrong_result_is_named_by_its_line(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    seen: set[type] = set()

    def read(value: object) -> Any:
        seen.add(type(value))
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    with RagEval(metrics=[half], sinks=[]) as evals:
        handler = RagEvalCallbackHandler(evals, as_context=read)
        hits = {"hits": [SimpleNamespace(body=SECRET)], "text": SECRET}
        ask: Any = RunnableLambda(lambda _: hits) | RunnableLambda(str)
        ask.invoke("q", {"callbacks": [handler]})
        with evals.interaction("q", as_context=read) as it:
            it.contexts([SimpleNamespace(body=SECRET), SECRET])
            it.answer(SECRET)
        assert evals.flush(60)
    assert seen == {SimpleNamespace}
    assert "as_context of an object of type SimpleNamespace: " in caplog.records[0].getMessage()
    for line in (one.getMessage() for one in caplog.records):
        assert f"{__file__}:" in line
        assert SECRET not in line
    assert len(caplog.records) == 2


# What a metric evaluates, and what its outcome says.
METRICS: dict[str, str] = {
    "sample.anwser": "AttributeError 'anwser' (did you mean 'answer'?)",
    "{}['scroe']": "KeyError 'scroe'",
    "sample['answer']": "('Sample' object is not subscriptable)",
    "sample.contexts[0]['text']": "('Context' object is not subscriptable)",
    "' '.join(sample.contexts)": "expected str instance, Context found)",
    "'a' in sample.contexts[0]": "(argument of type 'Context' is not ",
    "sample.session_id.lower()": "'lower' of NoneType",
    "sample.session_id > 1": "between instances of 'NoneType' and 'int')",
    "float(sample.answer)": "(could not convert string to float)",
    "1 / len(sample.tags)": "(division by zero)",
    "open('/missing/file')": "(No such file or directory)",
    "rejecting(sample.answer)": "HTTPError (HTTP 404)",
    "DATABASE.execute('')": "(SQLite objects created in a thread",
    "7": "The function returned a number outside its scale. It returned 7. Return a number",
    "sample.answer": "The function returned str. Return a number from 0 to 1",
    "Score(value=7)": "The function returned a number outside its scale",
    "Score(sample.answer)": "value must be a finite number, not str",
    "NotScored(sample.answer)": "cause must be one of",
    "{}[sample.answer]": "KeyError",
    "getattr(sample, sample.answer)": "AttributeError",
    "setattr(sample, 'answer', 1)": "FrozenInstanceError",
    "fail(Unreadable())": "Unreadable",
    "fail(OSError(sample.answer, sample.answer))": "OSError",
    "fail(RuntimeError(f'{sample.answer} attached to a different loop'))": ("RuntimeError"),
    "Unreadable().gone": "AttributeError",
    "SimpleNamespace(normalized=0.5)": "The function returned SimpleNamespace",
}
DATABASE = sqlite3.connect(":memory:")


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    def __dir__(self) -> list[str]:
        raise RuntimeError(SECRET)


def fail(error: Exception) -> None:
    raise error


def rejecting(text: str) -> None:
    raise HTTPError(f"http://u:p@host:1/{text}", 404, text, Message(), None)


@pytest.mark.parametrize("code", METRICS)
def test_error_of_a_metric_tells_its_likely_cause_without_content(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    def metric(sample: Sample) -> Any:
        names = {**globals(), "sample": sample, "__name__": "app"}
        return eval(code, names)

    with RagEval(metric) as evals:
        outcome: Any = evals.evaluate(sample(answer=SECRET))["own.metric"]
    (line,) = [one.getMessage() for one in caplog.records]
    for text in (line, outcome.detail):
        assert METRICS[code] in text
        assert f"{__file__}:" in text
        assert SECRET not in text


@pytest.mark.parametrize("name", ["choices", "content", "text", "iterrows", "source_nodes"])
def test_wrong_object_is_refused_without_running_its_code(name: str) -> None:
    class Response:
        def __getattr__(self, _: str) -> Any:
            raise RuntimeError

    def load(_: Any) -> None:
        pytest.fail("the response was loaded")

    setattr(Response, name, property(load))
    wrong: Any = Response()
    with RagEval("ragas") as evals:
        assert not evals.submit(question="q", answer=wrong)
        assert not evals.submit(wrong)
        assert any("answer must be str" in kind for kind in evals.stats().incidents)


def test_unknown_keyword_is_neither_logged_nor_kept(caplog: pytest.LogCaptureFixture) -> None:
    with RagEval("ragas") as evals:
        for number in range(3):
            body: Any = {f"{SECRET} {number}": 1}
            assert not evals.feedback("0" * 32, **body)
        assert len(evals.stats().incidents) == 1
    (line,) = [one.getMessage() for one in caplog.records]
    assert "unexpected keyword argument. Write: evals.feedback(" in line


def test_aevaluate_is_a_coroutine_function() -> None:
    with RagEval("ragas") as evals:
        # Frameworks run other functions in a thread, where nobody awaits the result.
        assert inspect.iscoroutinefunction(evals.aevaluate)


@given(st.fractions(0, 1))
def test_real_number_of_any_type_is_a_score(number: Fraction) -> None:
    with RagEval(lambda _: number) as evals:
        (outcome,) = evals.evaluate(sample()).values()
    assert outcome.value == float(number)


class _Judge:
    name, version, annotator_kind = "mine", "1", "CODE"

    async def aclose(self) -> None: ...


class Hasty(_Judge):
    def make(self, *_: Any) -> Any:
        return Findings()


class Loose(_Judge):
    async def make(self, *_: Any) -> Any:
        return {SECRET: SECRET}


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (Hasty(), "must be async"),
        (Loose(), "be Findings, not dict"),
        (lambda _: SECRET, "the requested JSON"),
        (refusing, "KeyError at"),
    ],
)
def test_judge_of_a_wrong_form_is_told_by_its_place(judge: Any, words: str) -> None:
    with RagEval("ragas.faithfulness", judge=judge) as made:
        outcome = made.evaluate(sample())["ragas.faithfulness"]
    assert words in outcome.detail  # type: ignore[union-attr]
    assert f"at {__file__}:" in outcome.detail  # type: ignore[union-attr]
    assert SECRET not in outcome.detail  # type: ignore[union-attr]


def test_metric_requested_by_name_reports_missing_fields() -> None:
    with RagEval("ragas") as made:
        chosen = ["ragas.context_recall", "ragas.faithfulness"]
        outcomes = made.evaluate(question="q", contexts=["A."], answer="A.", metrics=chosen)
    assert set(outcomes) == set(chosen)
    assert outcomes["ragas.context_recall"].detail == "the sample has no reference"  # type: ignore[union-attr]


@pytest.mark.parametrize("call", ["evaluate(sample)", "flush()", "shutdown()"])
def test_call_of_its_evaluator_in_a_metric_returns_at_once(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    def own(sample: Sample) -> float:
        exec(f"evals.{call}", {"evals": made, "sample": sample})
        return 0.5

    with RagEval(own, sinks=[]) as made:
        made.submit(sample())
        assert made.flush(60)
    name, _, _ = call.partition("(")
    assert f"{name}() inside a" in caplog.text
    assert f"at {__file__}:" in caplog.text or "at <string>" in caplog.text


# What a sink writes, and the one WARNING.
SINKS: dict[str, str] = {
    "evaluation.scores['hafl']": "no score of 'hafl'; did you mean 'own.half'?) raised at",
    "evaluation.outcomes['hafl']": "no outcome of 'hafl'; did you mean 'own.half'?) raised at",
    "evaluation.scores['own.unsure']": "'own.unsure' has no score: undefined) raised at",
    "evaluation.scores[evaluation.sample.answer]": "sink store: NoOutcome raised at",
    "setattr(evaluation, evaluation.sample.answer, 1)": "sink store: FrozenInstanceError raised at",
    "evals.flush()": "flush() inside a sink or metric waits for itself (remove it, at",
    "evals.shutdown()": "shutdown() inside a sink or metric waits for itself (remove it, at",
}


def unsure(_: Sample) -> NotScored:
    return NotScored("undefined")  # type: ignore[arg-type]


@pytest.mark.parametrize("code", SINKS)
def test_mistake_in_a_sink_is_logged_once_with_its_line(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    def store(evaluation: Any) -> None:
        exec(compile(code, "/app/store.py", "exec"), {"evaluation": evaluation, "evals": evals})

    with RagEval(metrics=[half, unsure], sinks=[store]) as evals:
        for _ in range(2):
            evals.submit(sample(answer=SECRET))
        assert evals.flush(60)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert SINKS[code] in line
    assert "/app/store.py:1" in line or __file__ in line
    assert SECRET not in line


def test_sink_may_flush_another_evaluator() -> None:
    flushed: list[bool] = []
    with RagEval(half) as other:
        with RagEval(half, sinks=[lambda _: flushed.append(other.flush(60))]) as evals:
            evals.submit(sample())
            assert evals.flush(60)
        assert not other.stats().incidents
    assert flushed == [True]


def test_async_metric_that_flushes_its_evaluator_is_reported() -> None:
    async def flushing(_: Sample) -> float:
        return float(made.flush(60))

    with RagEval(flushing) as made:
        made.submit(sample())
        assert made.flush(60)
        assert list(made.stats().incidents) == ["flush() inside a sink or metric waits for itself"]


@pytest.mark.parametrize(
    "path", ["content", "text", "output_text", "message.content", "choices[0].message.content"]
)
def test_judge_function_that_returns_an_object_names_its_text(path: str) -> None:
    reply = SimpleNamespace(**{re.split(r"\W", path)[0]: SECRET})
    with RagEval("ragas.faithfulness", judge=lambda _: reply) as made:
        outcome = made.evaluate(sample())["ragas.faithfulness"]
    assert f"not a str. Return its text: `.{path}`." in outcome.detail  # type: ignore[union-attr]


# Arguments of the command line, and the error.
COMMANDS: dict[str, str] = {
    "evaluate header.csv": "header.csv has no rows",
    "evaluate latin.csv": "must be a file in UTF-8",
    **{f"evaluate {at}.csv": f"its first line has {mark!r}" for at, mark in enumerate(";|\t")},
    "evaluate data.jsonl --chain ./app.py:chain": "; write app:chain",
    "evaluate .": "must be a folder that",
    "evaluate data.jsonl -o data.jsonl": "output is 'data.jsonl', but must be a new file",
    "evaluate data.jsonl --metrics lexical --threshold 1": "argument '--threshold'; there are",
    "evaluate data.jsonl --judgee x": "did you mean '--judge'?",
    "evaluate data.jsonl --chain tests.contract.test_mistakes:coroutine": (
        "coroutine takes no question; if it returns the pipeline, write `pipeline = coroutine()` "
        "in tests/contract/test_mistakes.py and pass --chain tests.contract.test_mistakes:pipeline"
    ),
    "evaluate data.jsonl --fail-on-point ragas.faithfulness>=0.8": (
        "fails a run whose mean is at least 0.8, the good side; write ragas.faithfulness<0.8"
    ),
    "evaluate data.jsonl --fail-on ragas.noise_sensitivity<0.1": "write ragas.noise_sensitivity>=",
    "evaluate data.jsonl --metrics lexical -o old.jsonl --fail-on lexical.number_match<0.5": (
        "the results in old.jsonl lack lexical.number_match, because an earlier run wrote them. "
        "Remove old.jsonl or choose another -o"
    ),
    "metrics ragas.groundedness": "did you mean 'nvidia.response_groundedness'?",
    "calibrate results.jsonl labels.jsonl": "1 labels match no sample, first 'q1'. A label needs",
    "calibrate results.jsonl results.jsonl": "Write: calibrate RESULTS LABELS",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_mistake_in_a_command_says_what_to_write(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("header.csv").write_text("question,answer\n")
    for at, mark in enumerate(";|\t"):
        Path(f"{at}.csv").write_text(f"question{mark}answer\n{SECRET}{mark}{SECRET}\n")
    Path("latin.csv").write_bytes("question\nWhy f\xfcr?\n".encode("latin-1"))
    Path("data.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}))
    Path("labels.jsonl").write_text(json.dumps({"sample_id": "q1", "supported": True}))
    main(["evaluate", "data.jsonl", "--metrics", "lexical.source_citation", "-o", "old.jsonl"])
    Path("results.jsonl").write_text(json.dumps({"outcomes": {}}))
    with suppress(SystemExit):
        assert main(command.split()) == 2
    assert COMMANDS[command] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rag_eval]\njudge = 'heuristic'", "there is no table [rag_eval]; write its settings at"),
        (
            "[metric_rates]\nall = 1\nsample_rate = 0.2",
            ":3: move sample_rate above the table",
        ),
    ],
)
def test_settings_file_with_a_misplaced_table_names_the_line(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.toml").write_text(text)
    monkeypatch.setenv("RAG_EVAL_CONFIG_FILE", str(tmp_path / "settings.toml"))
    with pytest.raises(ConfigError, match=re.escape(words)):
        RagEval(half)


def test_redaction_function_with_reversed_arguments_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def hide(text: str, _field: str) -> str:
        return text

    with RagEval(half, redact=[hide]) as evals:
        for _ in range(2):
            evals.submit(sample(answer=SECRET))
        assert evals.flush(60)
        assert evals.stats().scored == 0
    lines = [one for one in caplog.messages if "arguments are (field, text)" in one]
    assert len(lines) == 1
    assert f"{__file__}:" in lines[0]


def wordless() -> str:
    return SECRET


# A wrong argument of the constructor, and what its error says.
SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"redact": [wordless]}, f"or of a field's name and a text. It is defined at {__file__}:"),
    ({"rules": [{"rat": 0.5}]}, r"rules\[0\].rat is not a setting; did you mean rules\[0\].rate"),
    ({"tail": [{"ten": "ragas"}]}, r"tail\[0\].ten is not a setting; did you mean tail\[0\].then"),
    (
        {"sinks": [AlertSink("http://127.0.0.1:9", "own.hafl<0.5")]},
        "AlertSink condition is 'own.hafl'; did you mean 'own.half'",
    ),
    (
        {"sinks": [AlertSink("http://127.0.0.1:9", "own.half<3")]},
        "AlertSink condition is 3.0, but must be a number from 0 to 1 for own.half",
    ),
    (
        {"sinks": [type("Pager", (AlertSink,), {})("http://127.0.0.1:9", "own.half<3")]},
        "AlertSink condition is 3.0",
    ),
]


@pytest.mark.parametrize(("given_", "words"), SETTINGS)
def test_wrong_argument_of_the_constructor_says_what_to_write(
    given_: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        RagEval(half, **given_)


def test_failure_of_a_first_judge_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The score of the second judge stays."""
    text = "The ferry leaves the quay at 07:40."
    with RagEval("ragas.faithfulness", judge=Cascade(CallableJudge(refusing), "heuristic")) as made:
        for _ in range(2):
            outcomes = made.evaluate(question="When?", contexts=[text], answer=text)
            assert isinstance(outcomes["ragas.faithfulness"], Score)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    words = "judge callable:refusing failed (judge_failed: callable:refusing: KeyError at"
    assert f"{words} {__file__}" in line


@given(NAMES, st.booleans())
def test_question_with_two_references_is_warned_of_with_its_rows(
    question: str, is_same: bool
) -> None:
    assume(question.upper().casefold() == question.casefold())
    last = "One." if is_same else "Two."
    asked = {f"{question} Why?": "One.", "Other?": "A.", f" {question}  WHY? ": last}
    rows = [{"question": key, "reference": value} for key, value in asked.items()]
    with TemporaryDirectory() as folder, capture_warnings() as seen:
        file = Path(folder) / "golden.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        RagEval(references=str(file)).shutdown(0)
    assert len(seen) == (not is_same)
    assert all("rows 1 and 3 have one question but different references" in line for line in seen)


@pytest.mark.parametrize(("metric", "is_told"), [("ragas.answer_relevancy", True), (half, False)])
def test_missing_embedder_is_told_only_where_a_metric_uses_one(
    metric: Any, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("rag_eval_hooks.judges.choose._has_minilm", lambda: asked.append(1))
    RagEval(metric).shutdown(0)
    assert bool(asked) is is_told


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (
            "retrieval",
            "(metrics such as retrieval.hit_rate have no value",
        ),
        (
            Criterion("is short", name="short"),
            "an LLM judge (metrics such as criterion.short",
        ),
        ("nvidia", "configure an LLM judge (metrics such as nvidia."),
        ("graphrag.semantic_similarity_percentage", "set embedder=... (metrics such as graphrag"),
        (unsure, ""),
        (None, ""),
    ],
)
def test_chosen_metric_that_never_has_a_value_is_warned_of_once(
    chosen: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with RagEval(chosen) as evals:
        for _ in range(2):
            evals.submit(sample(reference_ids=["a"], reference="A text."))
        assert evals.flush(60)
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(lines) == bool(words)
    assert all(words in line for line in lines)
