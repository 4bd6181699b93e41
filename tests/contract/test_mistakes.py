"""Mistakes at run time: one WARNING per kind, with the line of the application's own file."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from rag_eval_hooks import ConfigError, NotScored, RagEval, Sample, Score
from rag_eval_hooks.errors import InputError
from tests.support.evaluation import sample

SECRET = "a text of the application"


def half(_: Sample) -> float:
    return 0.5


@pytest.fixture
def evals() -> Iterator[RagEval]:
    with RagEval(metrics=[half]) as made:
        yield made


def submit_number(evals: RagEval) -> None:
    evals.submit(42)  # type: ignore[arg-type]


def submit_without_question(evals: RagEval) -> None:
    evals.submit({SECRET: SECRET, "answer": SECRET})


def submit_wrong_contexts(evals: RagEval) -> None:
    evals.submit({"question": SECRET, "contexts": [{SECRET: SECRET}]})


def state_wrong_contexts(evals: RagEval) -> None:
    with evals.interaction(SECRET) as it:
        it.contexts([{SECRET: SECRET}])
        it.answer(SECRET)


def never_open(evals: RagEval) -> None:
    evals.interaction(SECRET).answer(SECRET)


def answer_late(evals: RagEval) -> None:
    with evals.interaction(SECRET) as it:
        it.contexts([SECRET])
    it.answer(SECRET)


def forget_the_answer(evals: RagEval) -> None:
    with evals.interaction(SECRET) as it:
        it.contexts([SECRET])


def ask_nothing(evals: RagEval) -> None:
    with evals.interaction(" ") as it:
        it.answer(SECRET)


def answer_with_a_coroutine(evals: RagEval) -> None:
    async def model() -> str:
        return SECRET

    reply = model()
    with evals.interaction(SECRET) as it:
        it.contexts([SECRET])
        it.answer(reply)
    reply.close()


def answer_twice_at_once(evals: RagEval) -> None:
    with evals.interaction(SECRET) as it:
        it.answer(SECRET, SECRET)  # type: ignore[call-arg]
        it.answer(None)


def state_no_contexts(evals: RagEval) -> None:
    with evals.interaction(SECRET) as it:
        it.contexts()
        it.answer(SECRET)


def misspell_an_option(evals: RagEval) -> None:
    with evals.interaction(SECRET, contxts=SECRET) as it:  # type: ignore[call-arg]
        it.answer(SECRET)


def submit_a_misspelt_field(evals: RagEval) -> None:
    evals.submit(question=SECRET, anwser=SECRET)


def submit_an_unknown_status(evals: RagEval) -> None:
    evals.submit(question=SECRET, status=SECRET)


def give_feedback_after_shutdown(evals: RagEval) -> None:
    evals.shutdown()
    evals.feedback(SECRET, score=1)


def give_feedback_of_nothing(evals: RagEval) -> None:
    evals.feedback(SECRET)


def give_feedback_of_wrong_type(evals: RagEval) -> None:
    evals.feedback(SECRET, score=SECRET)  # type: ignore[arg-type]


def give_feedback_to_nobody(evals: RagEval) -> None:
    evals.feedback(SECRET, score=1)


def submit_after_shutdown(evals: RagEval) -> None:
    evals.shutdown()
    evals.submit(sample(answer=SECRET))


MISTAKES: dict[Callable[[RagEval], None], str] = {
    submit_number: "a mapping with question, contexts and answer, not int",
    submit_without_question: "A sample needs a 'question'",
    submit_wrong_contexts: "contexts must be texts or objects with a text, not dict",
    state_wrong_contexts: "contexts must be texts or objects with a text, not dict",
    never_open: "it.answer() was called outside its with block",
    answer_late: "it.answer() was called after its with block",
    forget_the_answer: "interaction without an answer (call it.answer(text), or it.answer(None)",
    ask_nothing: "no question",
    give_feedback_of_nothing: "Feedback needs a score, a label or a reference",
    give_feedback_of_wrong_type: "score must be a number, not str",
    give_feedback_to_nobody: "feedback for an unknown id (pass a trace id or sample id",
    answer_with_a_coroutine: "it.answer() takes a text, not coroutine. Await it first",
    answer_twice_at_once: "takes 2 positional arguments but 3 were given",
    state_no_contexts: "it.contexts() takes the documents, or [] if retrieval found none",
    misspell_an_option: "interaction() has no option 'contxts'; did you mean 'contexts'?",
    submit_a_misspelt_field: "A sample has no field 'anwser'; did you mean 'answer'?",
    submit_an_unknown_status: "status must be one of ok, error",
    give_feedback_after_shutdown: "feedback after shutdown",
    submit_after_shutdown: "request after shutdown",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_mistake_is_logged_once_with_the_line_of_the_caller(
    mistake: Callable[[RagEval], None], evals: RagEval, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rag_eval_hooks")
    for _ in range(3):
        mistake(evals)
        assert evals.flush(60)
    lines = [one.getMessage() for one in caplog.records if MISTAKES[mistake] in one.getMessage()]
    code, first = inspect.getsourcelines(mistake)
    places = [f"{__file__}:{number}" for number in range(first, first + len(code))]
    assert len(lines) == 1
    assert any(place in lines[0] for place in places)
    assert not [one for one in caplog.records if SECRET in one.getMessage()]


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


def failing(_: Sample) -> float:
    raise KeyError(SECRET)


def wild(_: Sample) -> float:
    return 7


def wordy(_: Sample) -> Any:
    return SECRET


def unscaled(_: Sample) -> Score:
    return Score(value=7)


def worded(_: Sample) -> Score:
    return Score(SECRET)  # type: ignore[arg-type]


def uncaused(_: Sample) -> NotScored:
    return NotScored(SECRET)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", [failing, wild, wordy, unscaled, worded, uncaused])
def test_mistake_in_a_metric_is_logged_with_the_line_of_the_metric(
    metric: Callable[[Sample], Any], caplog: pytest.LogCaptureFixture
) -> None:
    with RagEval(metrics=[metric]) as evals:
        evals.submit(sample())
        assert evals.flush(60)
        outcome = evals.evaluate(sample())[f"own.{metric.__name__}"]
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    first = inspect.getsourcelines(metric)[1]
    places = [f"{__file__}:{first}", f"{__file__}:{first + 1}"]
    for text in (line, outcome.detail):  # type: ignore[union-attr]
        assert any(place in text for place in places)
        assert SECRET not in text


@pytest.mark.parametrize("kind", ["tracer", "meter", "logger"])
@pytest.mark.parametrize("wrong", ["http://localhost:4318", RagEval, 5])
def test_provider_that_is_none_is_refused_by_name(kind: str, wrong: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{kind}_provider is .* an object with get_{kind}\(\)"):
        RagEval(**{f"{kind}_provider": wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"), [("anwser", "answer"), ("context", "contexts"), ("qestion", "question")]
)
def test_evaluate_of_a_misspelt_field_names_the_field_meant(
    written: str, meant: str, evals: RagEval
) -> None:
    with pytest.raises(InputError, match=f"no field '{written}'; did you mean '{meant}'"):
        evals.evaluate(**{written: "x"})  # type: ignore[arg-type]


@given(st.sampled_from(["RAGEVAL_", "RAG_EVALS_", "RAGEVAL_HOOKS_"]))
def test_variable_of_another_prefix_is_warned_of_where_it_ends_as_a_setting(prefix: str) -> None:
    handler = logging.Handler()
    seen: list[str] = []
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("rag_eval_hooks")
    logger.addHandler(handler)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(f"{prefix}SAMPLE_RATE", "0.1")
        patched.setenv(f"{prefix}SEED", "7")
        RagEval().shutdown(0)
    logger.removeHandler(handler)
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


@pytest.mark.parametrize("takes", ["", "question, answer", "*, sample"])
def test_metric_function_of_other_arguments_is_refused(takes: str) -> None:
    function = eval(f"lambda {takes}: 0.5")
    shown = rf"^metrics is '<lambda>\({re.escape(takes)}\)', but must be a function of one argument"
    with pytest.raises(ConfigError, match=shown):
        RagEval(metrics=[function])


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
    with pytest.raises(ConfigError, match="without a table"):
        RagEval()


def test_judge_function_that_raises_is_named_by_its_line(evals: RagEval) -> None:
    with RagEval("ragas.faithfulness", judge=refusing) as made:
        outcome = made.evaluate(sample())["ragas.faithfulness"]
    line = inspect.getsourcelines(refusing)[1] + 1
    assert f"KeyError at {__file__}:{line}" in outcome.detail  # type: ignore[union-attr]
    assert SECRET not in outcome.detail  # type: ignore[union-attr]


def refusing(_: Any) -> str:
    raise KeyError(SECRET)
