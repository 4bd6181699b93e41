"""Alerts over HTTP: where requests show a fall, once, and again if the webhook fails."""

from __future__ import annotations

import random
from urllib.error import HTTPError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Sample
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import AlertSink
from rag_eval_hooks.score import UNIT, Scale
from tests.support.results import evaluation
from tests.support.servers.platform_server import Answer, PlatformServer


def at(seconds: float, value: float, scale: Scale = UNIT, **metadata: str) -> Evaluation:
    sample = Sample(question="q", metadata=metadata)
    return evaluation(sample, {"m": scale.score(value)}, start=round(seconds * 1e9))


@given(
    level=st.floats(0, 1),
    limit=st.floats(0.1, 0.9),
    number=st.integers(1, 90),
    better=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_alert_reports_the_samples_evidence(
    level: float, limit: float, number: int, better: bool
) -> None:
    scale, chance = Scale(0, 5, higher_is_better=better), random.Random(number)
    sign = "<" if better else ">"
    with PlatformServer(lambda _: Answer(204)) as server:
        sink = AlertSink(server.url, f"m{sign}{5 * limit:.3f}", samples=30)
        for second in range(number):
            sink.deliver(at(second, 5 * min(1.0, max(0.0, chance.gauss(level, 0.05))), scale))
        wrong = limit - level if better else level - limit
        if number < 30 or wrong < 0.02:
            assert not server.requests
        elif wrong > 0.15 and number > 40:
            (alert,) = server.requests
            assert f"m{sign}" in alert.body["text"]
            assert alert.body["samples"] <= number


def test_group_alerts_alone_and_anew_after_its_cooldown() -> None:
    with PlatformServer(lambda _: Answer(204)) as server:
        sink = AlertSink(server.url, "m<0.5", by="team", window=600, cooldown=300, samples=20)
        for second in range(700):
            sink.deliver(at(second, 0.1 + second % 3 / 10, team="red"))
            sink.deliver(at(second, 0.9, team="blue"))
        assert [request.body["group"] for request in server.requests] == ["red"] * 3
        # Requests that left the window count no more.
        for second in range(2000, 2019):
            sink.deliver(at(second, 0.1, team="red"))
        assert len(server.requests) == 3


def test_alert_that_the_webhook_refuses_is_posted_with_the_next_evaluation() -> None:
    answers = [Answer(302, headers=(("Location", "/elsewhere"),)), Answer(503), Answer(204)]
    with PlatformServer(lambda _: answers.pop(0)) as server:
        sink = AlertSink(server.url, "m<0.5", window=60, samples=30)
        for second in range(29):
            sink.deliver(at(second, 0.1))
        for second, status in ((29, 302), (30, 503)):
            with pytest.raises(HTTPError) as raised:
                sink.deliver(at(second, 0.1))
            assert raised.value.code == status
        for second in range(31, 80):
            sink.deliver(at(second, 0.1))
        assert [request.path for request in server.requests] == ["/"] * 3
