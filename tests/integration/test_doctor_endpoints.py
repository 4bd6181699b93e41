"""`rag-eval-hooks doctor` with endpoints as environments of production name them."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.otlp_collector import OtlpCollector
from tests.support.doctor import KEY, openai, results
from tests.support.doctor import doctor as run_doctor

QUIET = {"RAG_EVAL_EMBEDDER": "none"}


@pytest.mark.parametrize(
    "sampler",
    [
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.0001"},
    ],
)
def test_the_share_of_traces_that_is_kept_is_no_fault(
    sampler: dict[str, str], tmp_path: Path
) -> None:
    """The test span is sent whatever the application's sampler leaves out."""
    with OtlpCollector() as collector:
        code, rows = results(tmp_path, "--otlp-endpoint", collector.url, **QUIET, **sampler)
    assert code == 0, rows
    assert collector.span_names == ["rag-eval-hooks doctor"]


def test_a_disabled_sdk_is_told(tmp_path: Path) -> None:
    """An environment in which no span can be made is a problem with its name."""
    variables = {**QUIET, "OTEL_SDK_DISABLED": "true"}
    code, rows = results(tmp_path, "--otlp-endpoint", "http://127.0.0.1:9", **variables)
    assert code == 1
    assert "OTEL_SDK_DISABLED" in rows["exporter"]["advice"]


@pytest.mark.parametrize(
    ("variable", "path", "wanted"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", "/v1/traces"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/otlp/", "/otlp/v1/traces"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/v1/traces", "/v1/traces/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/ingest", "/ingest"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces", "/v1/traces"),
    ],
)
def test_variables_are_read_as_the_sdk_reads_them(
    variable: str, path: str, wanted: str, tmp_path: Path
) -> None:
    """The span is sent to where the application's own would go."""
    with OtlpCollector() as collector:
        results(tmp_path, **QUIET, **{variable: collector.url + path})
    assert collector.paths == [wanted]


def test_a_receiver_of_another_protocol_is_no_fault_of_the_clock(tmp_path: Path) -> None:
    """A port that speaks gRPC fails as the exporter's, with a word about ports."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"\x00\x00\x18\x04\x00" + b"\x00" * 28)

        threading.Thread(target=speak, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        code, rows = results(tmp_path, **QUIET, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert code == 1
    assert rows["clock"]["status"] == "note"
    assert "4317 is gRPC" in rows["exporter"]["advice"]


def test_credentials_in_a_receiver_s_address_stop_no_check(tmp_path: Path) -> None:
    """Credentials in an address are used, not shown, and not taken for a wrong clock."""
    with OtlpCollector() as collector:
        endpoint = collector.url.replace("http://", f"http://user:{KEY}@")
        code, rows = results(tmp_path, **QUIET, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert code == 0, rows
    assert rows["exporter"]["text"].startswith(collector.url)


@pytest.mark.parametrize("address", [f"http://user:{KEY}@host", f"http://host/?key={KEY}"])
def test_a_key_in_a_sink_s_address_is_not_shown(address: str, tmp_path: Path) -> None:
    """A key in a sink's address is refused as a setting, and masked where settings are shown."""
    for form in ((), ("--json",)):
        code, text = run_doctor(tmp_path, *form, **QUIET, RAG_EVAL_SINKS=f"phoenix:{address}")
        assert code == 1
        assert "phoenix:http://" in text


def test_a_failing_endpoint_comes_with_advice(tmp_path: Path) -> None:
    """An endpoint with a fault of its own: what to look at."""
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        code, rows = results(tmp_path, **openai(server))
    assert code == 1
    assert "HTTP 500" in rows["judge"]["text"]
    assert "its log" in rows["judge"]["advice"]


def test_a_page_instead_of_a_reply_comes_with_advice(tmp_path: Path) -> None:
    """The address of a web page, not of the API, is told as that of judge and embedder."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>welcome</html>")

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        variables = {"RAG_EVAL_JUDGE": "openai:m", "RAG_EVAL_JUDGE_BASE_URL": url}
        code, rows = results(tmp_path, **variables)
        server.shutdown()
    assert code == 1
    assert rows["judge"]["advice"]
    assert "no vectors of numbers" in rows["embedder"]["text"]
    assert "set embedder" in rows["embedder"]["advice"]
