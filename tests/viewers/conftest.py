"""One viewer of each kind for all tests, with one run of the demo in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.viewers.demo import Scored, run_demo
from tests.viewers.mlflow import Mlflow, mlflow
from tests.viewers.phoenix import Phoenix, phoenix


class InPhoenix(NamedTuple):
    server: Phoenix
    scored: list[Scored]


class InMlflow(NamedTuple):
    server: Mlflow
    scored: list[Scored]


@pytest.fixture(scope="session")
def in_phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InPhoenix]:
    with phoenix(tmp_path_factory.mktemp("phoenix")) as server:
        to = ("--otlp-endpoint", server.url, "--sink", f"phoenix:{server.url}")
        yield InPhoenix(server, run_demo(tmp_path_factory.mktemp("demo"), *to))


@pytest.fixture(scope="session")
def in_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InMlflow]:
    with mlflow(tmp_path_factory.mktemp("mlflow")) as server:
        to = ("--otlp-endpoint", server.url, "--sink", f"mlflow:{server.url}")
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-mlflow-experiment-id=0"}
        yield InMlflow(server, run_demo(tmp_path_factory.mktemp("demo"), *to, **headers))
