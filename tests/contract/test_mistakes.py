"""Mistakes at run time: one WARNING per kind, with the line of the application's own file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool

import rag_eval_hooks as hooks
import rag_eval_hooks_llama_index as llama_index
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
)
from rag_eval_hooks.capture.provenance import looks_up
from rag_eval_hooks.cli.main import main
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.results import AlertSink
from rag_eval_hooks_langchain import LangChainJudge, RagEvalCallbackHandler, record_contexts
from tests.support.evaluation import sample
from tests.support.size import size

SECRET = "a text of the application"
NOWHERE = "/tmp/" + "x" * 300
"""A path that the system refuses to look at, as a folder of somebody else's."""


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
    "evals.submit(question=SECRET, contexts=[SECRET, {SECRET: 1}])": "It is contexts[1], called",
    "evals.submit(question=SECRET, contexts=SECRET)": "Put the text into a list",
    "evals.submit(question=SECRET, contexts=[(0.9, SECRET)])": "not float. It is contexts[0]",
    "evals.submit(question=SECRET, answer=AIMessage(SECRET))": "answer must be str, not AIMessage",
    "evals.submit(SECRET, [SECRET], SECRET)": "positional arguments but 4 were given, called",
    "evals.submit(question=' ', contexts=[SECRET], answer=SECRET)": "the question is blank",
    "evals.feedback(SECRET, comment=SECRET)": "unexpected keyword argument, called",
    "evals.submit(question=SECRET, contexts=[SECRET], anwser=SECRET)": "did you mean 'answer'?",
    "evals.submit(question=SECRET, contexts=retriever)": "with a text, not Retriever, called",
    "evals.submit(question=SECRET, contexts=frame({SECRET: [SECRET]}))": "not DataFrame, called",
    "ran(lambda _: record_contexts(retriever), evals)": "with a text, not Retriever, called",
    "record_contexts([SECRET])": "record_contexts() recorded nothing at",
    "with evals.interaction(SECRET) as it: [it.answer(SECRET) for _ in range(4)]": "the last call",
    "with evals.interaction(SECRET, metadata={'user_id': retriever}): pass": "Capture omits",
    "[retriever.invoke('', config(evals)) for _ in range(1 + evals.flush())]": "but no model ran",
    "evals.submit(question=SECRET, status=SECRET)": "status must be one of ok, error",
    "evals.submit(question=SECRET, metadata=SECRET)": "metadata must be a mapping, not str",
    "evals.shutdown(); evals.submit(sample(answer=SECRET))": "request after shutdown",
    "it = evals.interaction(SECRET); it.answer(SECRET)": "Write: `with evals.interaction(",
    "with evals.interaction(SECRET) as it: it.contexts([])\nit.answer(SECRET)": "after the with",
    "with evals.interaction(SECRET) as it: it.contexts([SECRET])": "call `it.answer(text)`, or",
    "with evals.interaction(SECRET) as it: it.answer(SECRET)": "If there are none, call `it",
    "with evals.interaction(SECRET, contxts=SECRET): pass": "did you mean 'contexts'?",
    "with evals.interaction(SECRET, session_id=SECRET): pass": "Pass metadata={'session_id': ...}",
    "with evals.interaction(SECRET) as it: it.contexts()": "If retrieval found none, pass []",
    "with evals.interaction(SECRET) as it: it.answer(coroutine())": "Await it first",
    "with evals.interaction(SECRET) as it: it.answer(**{SECRET: SECRET})": "unexpected keyword",
    "with evals.interaction(SECRET) as it: it.anwser = SECRET": "did you mean 'answer'?",
    "evals.feedback(SECRET)": "Feedback needs a score, a label or a reference",
    "evals.feedback(SECRET, score=SECRET)": "score must be a number, not str",
    "evals.feedback(SECRET, score=1)": "feedback for an unknown id. Pass a trace id or sample id",
    "evals.feedback(True, score=1)": "or a sample's sample_id, not bool",
    "evals.shutdown(); evals.feedback(SECRET, score=1)": "feedback after shutdown",
    "evals.explain(SECRET)": "explain: the id is unknown. Pass a trace id or sample id",
    "llama_index.enable(evals); ask.invoke(SECRET); llama_index.disable()": "For LangChain, write",
    "with evals.interaction(SECRET, contexts=[SECRET]): pass": "as it: it.contexts(...)",
}


ask = RunnableLambda(str)


class Retriever(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[Document]:
        return [Document(SECRET)]


def config(evals: RagEval) -> Any:
    return {"callbacks": [RagEvalCallbackHandler(evals)]}


def ran(step: Any, evals: RagEval) -> None:
    RunnableLambda(step).invoke(SECRET, config(evals))


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
    names["frame"] = pandas.DataFrame
    names["llama_index"] = llama_index
    for _ in range(3):
        exec(called, {**names, "evals": evals, "__name__": "app"})
        assert evals.flush(60)
    lines = [one.getMessage() for one in caplog.records if MISTAKES[code] in one.getMessage()]
    assert len(lines) == 1
    assert "/app/mistake.py:" in lines[0] or "no model" in lines[0]
    assert not [one for one in caplog.records if SECRET in one.getMessage()]


# A call that raises, and what its error says: it shows the value, as the caller sees it.
ERRORS: dict[str, str] = {
    "evals.evaluate('a question')": "A sample must be a Sample, or a mapping with .* not str",
    "evals.evaluate({'question': 'q', 'contexts': [{'body': 'x'}]})": "The keys are: body",
    "evals.evaluate(question='q', reference_ids='id')": "must be a sequence of ids, not str",
    "evals.evaluate(question='q', ended_at=1.7e18)": "nanoseconds since the epoch, not float",
    "evals.evaluate(question='q', trace_id=-1)": "must be 32 hex digits. It is '-0+1'",
    "evals.evaluate(question='q', trace_id='')": "must be 32 hex digits. It is ''",
    "evals.evaluate(question='q', metrics=5)": "metrics must be ids .* not int. It is 5",
    "evals.evaluate(question='q', metrics='own.hafl')": "did you mean 'own.half'?",
    "evals.evaluate('q', ['c'], 'a')": "4 were given",
    "setattr(evals, 'sample_rate', 0.1)": r"after start-up. Write: RagEval\(sample_rate=",
    "RagEvalCallbackHandler(evals, metrics=['ragas'])": r"'metrics'. Write: RagEval\(metrics=",
    "RagEval(tracer_provider='http://localhost:4318')": r"^tracer_provider is .* get_tracer\(\)",
    "RagEval(meter_provider=RagEval)": r"^meter_provider is .* with get_meter\(\)",
    "RagEval(metrics=[lambda: 0.5])": r"^metrics is '<lambda>\(\)', but must be a function that",
    "RagEval(metrics=[lambda *, sample: 0.5])": r"^metrics is '<lambda>\(\*, sample\)', but must",
    "RagEval(half, redact=[coroutine])": f"a text. The function is defined at {__file__}:",
    "RagEval(rules=[{'rat': 0.5}])": r"rules\[0\].rat is not .* Did you mean rules\[0\].rate",
    "RagEval(half, sinks=[AlertSink('http://x', 'own.hafl<0.5')])": "did you mean 'own.half'",
    "RagEval(half, sinks=[AlertSink('http://x', 'own.half<3')])": "3.0, but must be a number from",
    "setup_tracing('my-app')": "endpoint is 'my-app'.* to name the service, pass service_name=",
    "RagEval(evals.config)": r"Write RagEval\(config=",
    "LangChainJudge(ChatPromptTemplate(['{a} {b}']) | ask)": "must be the chat model itself",
    "evals.flush('5')": "timeout must be a number of seconds, not str. It is '5'",
    "evals.evaluate({'question': 'q'}, answer='a')": r"or keyword fields, not both\. Got answer",
    "evals.evaluate(question=None)": "question must be str, not NoneType. Pass the user's question",
    "evals.evaluate(question='q', contexts=[Context(5)])": "not int. To build a Context from",
    "evals.flush(float('nan'))": "timeout must be a number of seconds. It is nan",
    "RagEvalCallbackHandler(5)": "evals is 'int', but must be a RagEval object",
    "RagEvalCallbackHandler(evals, question=5)": "the name of a key, or a function",
    "RagEvalCallbackHandler(evals, root=5)": "root is 5, but must be the name of a run",
    "RagEvalCallbackHandler(evals, retrieval_tools=5)": "must be a list of names",
    "RagEvalCallbackHandler(evals, as_context=5)": "function that converts an object to its text",
    "RagEval(['ragas', '-ragas'])": "'-ragas'.*at least one",
    "RagEval(Retriever)": "metrics is .*Retriever.*, but must be .*functions",
    "RagEval(['ragas.faithfulnes'])": "^metrics is 'ragas.faithfulnes'.* did you mean",
    "RagEval(config={'sample_rate': 1})": "^config is 'dict', but must be a RagEvalConfig",
    "RagEval([half, half])": "metrics is 'own.half', but must be an id that no other metric has",
    "RagEval(sample_rate=1.5)": "^sample_rate is 1.5, but must be ",
    "RagEval(sample_rate=True)": "^sample_rate is True, but must be ",
    "RagEval(hold_timeout=float('inf'))": "^hold_timeout is inf, but must be ",
    "RagEval(rate_limit={'hour': 1})": "^rate_limit is {'hour': 1}, but must be ",
    "RagEval(budget={'calls_per_hours': 1})": "^budget.calls_per_hours is not a setting",
    "RagEval(rules=[{'rate': 1}, {'rate': 5}])": r"^rules\[1\].rate is 5, but must be ",
    "RagEval(rules=[{'rate': 1, 'question': '('}])": r"^rules\[0\].question is '\(', but must be ",
    "RagEval(tail=[{'then': 'ragas'}])": r"^tail\[0\] is .* with exactly one condition",
    "RagEval(tail=[{'then': (), 'thumbs_down': True}])": r"^tail\[0\].then is \(\), but must be ",
    "RagEval(metric_rates={'ragas': 1.5})": "^metric_rates is .*1.5.*, but must be less than",
    "RagEval(metric_rates={'ragsa': 0.5})": "^metric_rates is 'ragsa', but must be one of all",
    "RagEval(tail=[{'then': 'all', 'metric': 'own.half', 'below': 1}])": r"^tail\[0\].metric is ",
    "RagEval(run_on=5)": "run_on is 'int', but must be 'thread', 'celery' or a Celery application",
    "RagEval(spool=NOWHERE)": "^spool is ",
    "RagEval(sinks=f'jsonl:{NOWHERE}')": "^sinks is ",
    "RagEval(sinks='jsonl:/no/such/folder/x.jsonl')": "^sinks is ",
    "RagEval(sinks=MemorySink)": r"an object, not a class. Write: MemorySink\(\)",
    "RagEval(sinks=f'mlflow:http://user:{SECRET}@localhost')": "^sinks is ",
    "RagEval(sinks='langfuse:http://x', sink_keys={'langfuse': SECRET})": "^sink_keys is ",
    "RagEval(sinks=['scores.jsonl'])": "did you mean 'jsonl:scores.jsonl'",
    "RagEval(sinks=['phenix:http://localhost:1'])": "did you mean 'phoenix:http://localhost:1'",
    "RagEval(sinks=[object()])": r"object has no deliver\(\) and close\(\)",
    "RagEval(sinks=[coroutine])": r"a function that takes \(evaluation\) or \(sample, outcomes\)",
    "RagEval(sink_keys={'phenix': 'k'})": "sink_keys is 'phenix', but must be phoenix=<key>",
    "RagEval(redact=5)": "redact is 5, but must be 'none', 'all', or a list of",
    "RagEval(redact='emails')": "redact is 'emails'",
    "RagEval(redact=[5])": "may also contain rules and functions",
    "Patterns({'a b': 'x'})": "names that contain only ASCII letters and underscores",
    "Patterns({'a': '('})": r"a regular expression \(missing \)",
    "Patterns({'a': 'x*'})": "an expression that does not match the empty text",
    "AlertSink('localhost', 'own.half<0.5')": "a URL that starts with http:// or https://",
    "AlertSink('http://x')": "conditions such as",
    "Score(None)": "not NoneType. To give no score, return None",
    "Scale(1, 0)": r"must be below its high end. The scale is Scale\(1, 0\)",
    "evaluator_metric(5)": "evaluator is 'int', but must be a function of inputs and outputs",
    "evaluator_metric(lambda outputs, query: 1)": "'query', but must be one of inputs, outputs",
    "Criterion(' ')": "a predicate, such as",
    "RagEval(budget={'calls_per_day': 3, 'path': NOWHERE + '/b.db'})": "^budget.path is ",
    "RagEval(budget={'cost_per_day': 3}, judge='ollama:unpriced')": "^budget is ",
    "RagEval(judge='openai:gpt-4o-mini')": "^judge_api_key is None",
    "RagEval(judge='openai:')": "judge is 'openai:', but must be .*'openai:<model>'",
    "RagEval(judge='azure:m')": "judge_base_url is None, but must be the Azure endpoint's URL",
    "RagEval(judge='systemone:jev')": "TYPESAFE_API_KEY",
    "RagEval(judge_base_url='localhost:8000')": "^judge_base_url is 'localhost:8000', but must ",
    "RagEval(judge_base_url='http://[')": "a URL without credentials or parameters",
    "RagEval(judge='ollama:m', judge_prices='x')": "a readable TOML file with .*FileNotFound",
    "RagEval(judge='ollama:m', judge_prices=file('m = 3'))": r"prices per million tokens \(m: ",
    "CallableJudge('gpt')": "messages",
    "CallableJudge(lambda m: '', memo=Memo())": "name",
    "CallableJudge(refusing, window=True)": "window",
    "CallableJudge(refusing, examples={'judgin': 'Example 4. Ours.'})": "judgin",
    "LangChainJudge(FakeListChatModel(responses=['a']), timeout=0)": "timeout",
    "llama_index.LlamaIndexJudge('gpt')": "LLM",
    "Cascade('heuristic', refusing)": "Judge",
    "Cascade('heuristic', 'heuristic', floor=2)": "floor is 2, but must be a probability",
    "DecisionJudge(object(), timeout=1)": r"options is \['timeout'\], but must be empty",
    "DecisionJudge('gpt')": "'openai-decisions:<model>' or 'systemone:<model or url>'",
    "DecisionJudge('openai-decisions:m')": "a key, unless you set base_url or headers",
    "HeuristicJudge(calibration='x')": r"`rag-eval-hooks calibrate` wrote \(FileNotFoundError",
    "HeuristicJudge(calibration=file('{\"schema\": 5}'))": r"calibrate` wrote \(ValueError",
    "RagEval(question_checks='x')": "a readable TOML file. Reading the file raised FileNotFound",
    "RagEval(question_checks=file('= ='))": r"valid TOML \(the parser says: Invalid",
    "RagEval(question_checks=file('[Q]'))": "^x.toml: Q is .*discriminator",
    "checks('list', 'patterns = [\"(\"]')": "^x.toml: Q.patterns.0 is .*expression",
    "checks('list', 'patern = []')": "^x.toml: Q.patern is .*permitted",
    "checks('facts', 'facts = {a={numbers=[\"x\"]}}')": "^x.toml: Q.facts.a.numbers.0 is ",
    "checks('calculation', FACT)": "^x.toml: Q.correct is .*required",
    "checks('calculation', 'correct = {holds = [\"b\"]}', FACT)": "only the facts a",
    "RagEval(references='x.jsonl')": "references is 'x.jsonl', but must be a readable file",
    "RagEval(references=file('', 'x.jsonl'))": "a file with at least one question",
    "RagEval(references=file('{}', 'x.jsonl'))": "rows with a question and a reference; row 1: ",
    "RagEval(references=file('{\"question\": \"q\"}', 'x.jsonl'))": "Row 1 has no reference",
    "RagEval(references=file('', 'x.txt'))": "a .jsonl, .csv or .parquet file, or a folder",
}


FACT = 'facts = {a = {words = ["a"]}}'


def file(text: str, name: str = "x.toml") -> str:
    Path(name).write_text(text)
    return name


def checks(kind: str, *lines: str) -> RagEval:
    return RagEval(question_checks=file("\n".join(["[Q]", f"kind = {kind!r}", *lines])))


@pytest.mark.parametrize("code", ERRORS)
def test_mistake_in_an_inline_call_raises_its_cause(
    code: str, evals: RagEval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "TYPESAFE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    public = {name: getattr(hooks, name) for name in dir(hooks) if name in code}
    names = {**public, "AlertSink": AlertSink, "LangChainJudge": LangChainJudge, "Memo": Memo}
    names |= {"llama_index": llama_index, "ChatPromptTemplate": ChatPromptTemplate, "evals": evals}
    mistakes = (TypeError, ConfigError, LookupError, AttributeError)
    with pytest.raises(mistakes, match=ERRORS[code]) as caught:
        eval(code, {**globals(), **names})
    assert SECRET not in str(caught.value)


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
        assert (f"asked a question that {file} contains" in "".join(seen)) == (len(seen) == 2)


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
    assert seen == [
        f"The variable {prefix}SAMPLE_RATE has no effect. Did you mean RAG_EVAL_SAMPLE_RATE?"
    ]


@settings(max_examples=size(15, 100))
@given(text=st.text(st.characters(codec="utf-8"), min_size=1))
def test_answer_may_be_a_message_or_assigned(text: str) -> None:
    seen: list[Any] = []
    with RagEval(metrics=[half], sinks=[seen.append]) as evals:
        for message in (
            AIMessage(text),
            SimpleNamespace(text=text),
            SimpleNamespace(response=text),
        ):
            with evals.interaction("q") as it:
                it.contexts("a chunk", "another")
                it.answer(message)
        with evals.interaction("q") as it:
            it.contexts = ["a chunk", "another"]  # type: ignore[method-assign,assignment]
            it.answer = text  # type: ignore[method-assign,assignment]
        assert evals.flush(60)
        assert not evals.stats().incidents
    assert [one.sample.answer for one in seen] == [text] * 4
    assert {len(one.sample.contexts) for one in seen} == {2}


def test_unread_answer_is_never_scored_low() -> None:
    seen: list[Any] = []
    with RagEval(metrics=[half], sinks=[seen.append]) as other:
        with other.interaction("q") as it:
            it.contexts(object())
            it.answer(object())
        assert other.flush(60)
    assert seen[0].sample.cut_parts == ("contexts", "answer")


def refusing(_: Any) -> str:
    raise KeyError(SECRET)


def returned(output: Any, _: Any) -> Any:
    return output


NAMES = st.text(st.characters(categories=["Ll"]), min_size=5, max_size=12)


@settings(max_examples=size(15, 100))
@given(NAMES, st.integers(0, 4), st.sampled_from(["question", "contexts", "answer", "root"]))
def test_option_that_matches_nothing_names_the_one_meant(name: str, at: int, option: str) -> None:
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


def test_handler_class_as_a_callback_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Handler(RagEvalCallbackHandler): ...

    told: Any = {"callbacks": [Handler]}
    for _ in range(2):
        RunnableLambda(str).invoke("q", told)
    (line,) = [one.getMessage() for one in caplog.records]
    assert f"The class Handler, passed at {__file__}:" in line
    assert line.endswith("Pass an object: callbacks=[Handler(evals)]")


@pytest.mark.parametrize("is_reached", [False, True])
def test_handler_that_no_run_reaches_is_named_at_shutdown(*, is_reached: bool) -> None:
    with RagEval(metrics=[half], sinks=[]) as evals:
        told = config(evals)
        RunnableLambda(str).invoke("q", told if is_reached else {})
        evals.flush()
        assert not evals.stats().incidents
    lines = [one for one in evals.stats().incidents if f"handler created at {__file__}:" in one]
    assert len(lines) == 1 - is_reached


@settings(max_examples=size(8, 100))
@given(NAMES, NAMES)
def test_only_named_tools_give_text_and_a_name_of_no_tool_is_told(name: str, other: str) -> None:
    assume(looks_up(name, "") is None)

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


@pytest.mark.parametrize("wrong", [{SECRET: 1}, KeyError(SECRET)])
def test_as_context_of_a_wrong_result_is_named_by_its_line(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    def read(value: object) -> Any:
        assert type(value) is SimpleNamespace
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    with RagEval(metrics=[half], sinks=[]) as evals:
        handler = RagEvalCallbackHandler(evals, as_context=read)
        hits = {"hits": [SimpleNamespace(body=SECRET)], "text": SECRET}
        ask: Any = RunnableLambda(lambda _: hits) | RunnableLambda(str)
        ask.invoke("q", {"callbacks": [handler]})
        assert evals.flush(60)
    (line,) = caplog.messages
    assert "as_context of an object of type SimpleNamespace: " in line
    assert f"{__file__}:" in line
    assert SECRET not in line


# What a metric evaluates, and what its outcome says.
METRICS: dict[str, str] = {
    "sample.anwser": "AttributeError",
    "float(sample.answer)": "ValueError",
    "7": "The function returned 7, which is outside the scale. Return a number",
    "sample.answer": "The function returned str. Return a number from 0 to 1",
    "Score(sample.answer)": "value must be a finite number, not str",
    "setattr(sample, 'answer', 1)": "FrozenInstanceError",
    "fail(Unreadable())": "Unreadable",
    "SimpleNamespace(normalized=0.5)": "The function returned SimpleNamespace",
}


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("code", METRICS)
def test_error_of_a_metric_tells_its_type_and_line_without_content(
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
        (refusing, "KeyError at"),
        (lambda _: SimpleNamespace(choices=SECRET), "returned SimpleNamespace, not str"),
    ],
)
def test_judge_of_a_wrong_form_is_told_by_its_place(judge: Any, words: str) -> None:
    with RagEval("ragas.faithfulness", judge=judge) as made:
        outcome = made.evaluate(sample())["ragas.faithfulness"]
    assert words in outcome.detail  # type: ignore[union-attr]
    assert f"at {__file__}:" in outcome.detail  # type: ignore[union-attr]
    assert SECRET not in outcome.detail  # type: ignore[union-attr]


@pytest.mark.parametrize("call", ["evaluate(sample)", "flush()", "shutdown()"])
@pytest.mark.parametrize("is_async", [False, True])
def test_call_of_its_evaluator_in_a_metric_returns_at_once(
    call: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def own(sample: Sample) -> float:
        exec(f"evals.{call}", {"evals": made, "sample": sample})
        return 0.5

    async def later(sample: Sample) -> float:
        return own(sample)

    with RagEval(later if is_async else own, sinks=[]) as made:
        made.submit(sample())
        assert made.flush(60)
    assert f"{call.partition('(')[0]}()" in caplog.text
    assert f"at {__file__}:" in caplog.text or "at <string>" in caplog.text


# What a sink writes, and the one WARNING.
SINKS: dict[str, str] = {
    "evaluation.scores[evaluation.sample.answer]": "sink store: KeyError raised at",
    "setattr(evaluation, evaluation.sample.answer, 1)": "sink store: FrozenInstanceError raised at",
    "evals.flush()": "flush() inside a sink or metric would wait forever. Remove the call.",
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


# Arguments of the command line, and the error.
COMMANDS: dict[str, str] = {
    "evaluate none.jsonl": "There is no file or folder none.jsonl",
    "evaluate data.jsonl --chain app": "chain is 'app', but must be module:object",
    "doctor --otlp-endpoint localhost": "--otlp-endpoint must be a URL",
    "doctor --capture app:chain": "--capture needs --question TEXT",
    "metrics nope": "metric is 'nope', but must be a name listed by",
    "evaluate data.jsonl --metrics lexical --fail-on lexical.exact_mach<0.9": "did you mean",
    "report labels.jsonl": "run: rag-eval-hooks evaluate DATA -o RESULTS",
    "report nowhere.jsonl --worst 3": "There is no file, folder or spool",
    "report noise.parquet": "found no outcome of a metric (skipped lines: 1 unreadable)",
    "report old.jsonl -o no/such/folder.html": "no/such/folder.html: No such file",
    "report old.jsonl --since yesterdayish": "Use 24h, 90m, 7d, today",
    "report old.jsonl --since 2126-01-01": "None of 1 results matches --where",
    "report old.jsonl --labels results.jsonl": "labels: line 1 is",
    "report old.jsonl --where nope": "'nope' is not valid. Use KEY=VALUE",
    "report old.jsonl --where nope=1": "--where is 'nope', but must be one of dataset_row, ",
    "report old.jsonl --by nope": "by is 'nope', but must be one of dataset_row, ",
    "report old.jsonl --metric nope": "--metric is 'nope', but must be one of lexical.",
    "report old.jsonl --worst -1": "'-1' is not valid. Use a whole number, 1 or more",
    "report old.jsonl --labels old.jsonl": "has 2 labels, but no metric has labels for at least 20",
    "evaluate header.csv": "header.csv has no rows",
    "evaluate latin.csv": "'utf-8' codec can't decode byte 0xfc",
    "evaluate data.jsonl --chain ./app.py:chain": "invalid format: './app.py:chain'",
    "evaluate data.jsonl --chain unready:app": "unready.py:3",
    "evaluate data.jsonl -o data.jsonl": "output is 'data.jsonl', but must be a new file",
    "evaluate data.jsonl --metrics lexical --threshold 1": "argument '--threshold'; known names",
    "evaluate data.jsonl --chain tests.contract.test_mistakes:SECRET": "a function that takes the",
    "evaluate data.jsonl --fail-on-point ragas.faithfulness>=0.8": "write ragas.faithfulness<0.8",
    "evaluate data.jsonl --fail-on ragas.noise_sensitivity<0.1": "write ragas.noise_sensitivity>=",
    "evaluate data.jsonl --metrics lexical -o old.jsonl --fail-on lexical.number_match<1": "one of",
    "calibrate results.jsonl labels.jsonl": "A label needs the sample_id",
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
    Path("latin.csv").write_bytes("question\nWhy f\xfcr?\n".encode("latin-1"))
    Path("noise.parquet").write_bytes(b"PAR1" * 90)
    Path("data.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}))
    Path("unready.py").write_text("import os\n\nos.nothing\n")
    Path("labels.jsonl").write_text(json.dumps({"sample_id": "q1", "supported": True}))
    main(["evaluate", "data.jsonl", "--metrics", "lexical.source_citation", "-o", "old.jsonl"])
    Path("results.jsonl").write_text(json.dumps({"outcomes": {}}))
    with suppress(SystemExit):
        assert main(command.split()) == 2
    assert COMMANDS[command] in capsys.readouterr().err
    assert not Path("data.results.jsonl").exists()


def test_failure_of_a_first_judge_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    text = "The ferry leaves the quay at 07:40."
    with RagEval("ragas.faithfulness", judge=Cascade(CallableJudge(refusing), "heuristic")) as made:
        for _ in range(2):
            outcomes = made.evaluate(question="When?", contexts=[text], answer=text)
            assert isinstance(outcomes["ragas.faithfulness"], Score)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    words = "judge callable:refusing failed. judge_failed: callable:refusing: KeyError at"
    assert f"{words} {__file__}" in line


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("retrieval", "Metrics such as retrieval.hit_rate have no value"),
        (Criterion("is short", name="short"), "an LLM judge. Metrics such as criterion.short"),
        ("graphrag.semantic_similarity_percentage", "set embedder=... Metrics such as graphrag"),
        (unsure, ""),
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
