"""Keys stand in no error, log, repr or count, whatever is wrong with them or their addresses."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.openai import ClientOptions, OpenAIJudge
from tests.attacks.test_no_content_in_logs import everything, leaks
from tests.support.servers.platform_server import Answer, PlatformServer, Request

KEY = "sekrit-91c2"
ASKED = Sample(question="q", contexts=("c",), answer="see page 1")  # type: ignore[arg-type]
SHOWN = Sample(question="q", answer="see page 1", trace_id="a" * 32, span_id="b" * 16)
METRIC = "lexical.source_citation"


def error_of(make: Callable[[], Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        make()
    return caught.value


def test_a_wrong_address_is_told_without_its_credentials() -> None:
    for make in [
        lambda: RagEvalConfig(judge_base_url=f"http://user:{KEY}@host"),
        lambda: RagEvalConfig(judge_base_url=f"http://host/v1?key={KEY}"),
        lambda: RagEvalConfig(judge_base_url=f"http://{KEY}@host"),
        lambda: RagEvalConfig(judge_headers=KEY),  # type: ignore[arg-type]
        lambda: RagEvalConfig(judge_api_key={"a": KEY}),  # type: ignore[arg-type]
        lambda: RagEvalConfig(sink_keys=KEY),  # type: ignore[arg-type]
        lambda: RagEvalConfig(sinks=[f"http://user:{KEY}@host", 5]),  # type: ignore[list-item]
        lambda: RagEval(METRIC, sinks=f"phoenx:http://user:{KEY}@host"),
        lambda: RagEval(METRIC, sinks=f"phoenix:ftp://host?token={KEY}"),
        lambda: RagEval(METRIC, sinks=f"phoenix:http://host/?token={KEY}"),
        lambda: RagEval(METRIC, sinks=f"mlflow:http://user:{KEY}@host"),
        lambda: ClientOptions(base_url=f"http://user:{KEY}@host", api_key="k"),
        lambda: ClientOptions(base_url=f"http://host/v1?key={KEY}", api_key="k"),
        lambda: ClientOptions(base_url="http://host", api_key=f"{KEY}\n"),
        lambda: ClientOptions(base_url="http://host", headers={"X": f"{KEY}é"}),
        lambda: LangfuseSink(f"http://user:{KEY}@host", public_key="p", secret_key=KEY),
        lambda: RagEval(METRIC, judge={"api_key": KEY}),  # type: ignore[arg-type]
    ]:
        error = error_of(make)
        told = [str(error), repr(error), repr(error.got), repr(error.args), repr(error.__cause__)]
        assert leaks(told, KEY) == []
        assert error.field


def test_reprs_and_dumps_are_masked() -> None:
    sinks = (f"phoenix:http://user:{KEY}@localhost", "jsonl:scores.jsonl")
    config = RagEvalConfig(
        judge_api_key=KEY,
        judge_headers={"a": KEY},
        sink_keys={"phoenix": KEY, "langfuse": f"p:{KEY}"},
    )
    shown: list[Any] = [config, config.model_dump(), RagEvalConfig(broker=f"redis://:{KEY}@host/0")]
    shown += [RagEvalConfig(sinks=sinks), OpenAIJudge("m", base_url="http://host", api_key=KEY)]
    shown += [ClientOptions(api_key=KEY, headers={"a": KEY}), PhoenixSink("http://h", api_key=KEY)]
    assert leaks([*map(repr, shown), config.model_dump_json()], KEY) == []
    assert "jsonl:scores.jsonl" in repr(shown)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("make", [PhoenixSink, MlflowSink])
def test_credentials_in_an_address_of_ones_own_are_used_and_not_logged(
    make: Callable[[str], Any], logged: list[str], tmp_path: Path
) -> None:
    with PlatformServer(lambda _: Answer(401, {"error": KEY})) as server:
        url = server.url.replace("http://", f"http://user:{KEY}@")
        config = RagEvalConfig(spool=str(tmp_path / "spool"))
        with RagEval(METRIC, sinks=make(url), config=config) as evals:
            evals.submit(SHOWN)
            assert evals.flush(300)
            told = everything(evals)
        (request,) = server.requests
    assert request.headers["authorization"].startswith("Basic ")
    assert logged
    assert leaks([*logged, *told], KEY) == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("proxy", [f"http://user:{KEY}@127.0.0.1:9", f"nope://user:{KEY}@host"])
def test_a_proxy_that_fails_is_told_by_its_kind(
    proxy: str, logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    judge = OpenAIJudge("m", base_url="http://judge.invalid/v1", api_key="k", retries=0)
    monkeypatch.setattr(limits, "SINK_RETRY_SECONDS", 0.1)
    sink = PhoenixSink("http://phoenix.invalid")
    with RagEval(["ragas.faithfulness", METRIC], judge, sinks=sink) as evals:
        evals.submit(SHOWN)
        assert evals.flush(300)
        told = [repr(evals.evaluate(ASKED)), *everything(evals)]
    assert any("are lost" in line for line in told)
    assert leaks([*logged, *told], KEY) == []


def test_a_platform_that_repeats_keys_is_not_repeated(logged: list[str]) -> None:
    def echo(request: Request) -> Answer:
        said = request.headers["authorization"]
        return Answer(403, {"error": said}, headers=(("X-Was", said),))

    logging.getLogger("httpcore").setLevel(logging.INFO)
    with PlatformServer(echo) as server:
        sinks = [
            PhoenixSink(server.url, api_key=KEY),
            MlflowSink(server.url, token=KEY),
            LangfuseSink(server.url, public_key="pk", secret_key=KEY),
        ]
        with RagEval(METRIC, sinks=sinks) as evals:
            evals.submit(SHOWN)
            assert evals.flush(300)
            told = everything(evals)
        assert len(server.requests) == 3
    assert leaks([*logged, *told], KEY) == []


def test_a_judge_of_a_framework_is_not_repeated(logged: list[str]) -> None:
    from rag_eval_hooks_langchain import LangChainJudge

    class Leaky(GenericFakeChatModel):
        def _generate(self, *_: Any, **__: Any) -> Any:
            raise ValueError(f"Incorrect API key provided: {KEY}")

    judge = LangChainJudge(Leaky(messages=iter(())))
    with RagEval(["ragas.faithfulness"], judge) as evals:
        evals.submit(ASKED)
        assert evals.flush(300)
        told = [repr(evals.evaluate(ASKED)), *everything(evals)]
        told += [str(one) for one in evals.explain(ASKED.sample_id)]
    assert any("ValueError" in line for line in told)
    assert leaks([*logged, *told], KEY) == []
