"""The files of the compose example fit together, and have the shapes that their readers want."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.viewers.processes import executable

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
PANELS = FOLDER / "grafana/dashboards/rag-quality.json"
yaml = pytest.importorskip("yaml")

MOUNTED = sorted(
    path for pattern in ("*.y*ml", "grafana/**/*.yml") for path in FOLDER.glob(pattern)
)


def addresses(file: Path) -> list[tuple[str, str]]:
    """Hosts with ports that a file names, without where something listens itself."""
    found = re.findall(r"(?<![\w./-])(?:https?://)?([a-z]\w*):(\d{2,5})(?!\S*/)\b", _bare(file))
    return [(host, port) for host, port in found if host != "localhost"]


def _bare(file: Path) -> str:
    lines = file.read_text("utf-8").splitlines()
    return "\n".join(line.partition(" #")[0] for line in lines if not line.startswith("#"))


def mounted(service: dict[str, Any]) -> list[Path]:
    """The files of the example that a service reads."""
    sources = [FOLDER / volume.split(":")[0] for volume in service.get("volumes", ())]
    return [
        file
        for source in sources
        for file in ([source] if source.is_file() else source.rglob("*.yml"))
    ]


def read(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text("utf-8"))


def test_compose_takes_the_file() -> None:
    """A parser of the whole Compose specification accepts it, and would refuse a misspelled key."""
    compose_spec = pytest.importorskip("compose_spec")
    text = (FOLDER / "docker-compose.yml").read_text("utf-8")
    parsed = compose_spec.PyCompose.from_yaml(text)
    parsed.validate()
    assert set(parsed.service_names()) == {"collector", "jaeger", "tempo", "prometheus", "grafana"}
    with pytest.raises(ValueError, match="prots"):
        compose_spec.PyCompose.from_yaml(text.replace("ports:", "prots:"))


def test_every_address_is_a_service_that_listens_there() -> None:
    """Each host and port in a mounted file, and each published port, is one of a service."""
    services = read("docker-compose.yml")["services"]
    config = read("collector.yaml")
    protocols = config["receivers"]["otlp"]["protocols"].values()
    own = {one["endpoint"] for one in protocols} | {config["exporters"]["prometheus"]["endpoint"]}
    # Of the others, what their images listen on by default.
    listens = {
        "collector": {int(endpoint.rpartition(":")[2]) for endpoint in own},
        "jaeger": {4317, 4318, 16686},
        "prometheus": {9090},
        "tempo": {3200, 4318},
        "grafana": {3000},
    }
    assert set(listens) == set(services)
    asked = [(name, int(port)) for file in MOUNTED for name, port in addresses(file)]
    assert {name for name, _ in asked} == {"collector", "jaeger", "prometheus", "tempo"}
    for name, service in services.items():
        asked += [(name, int(port.rpartition(":")[2])) for port in service["ports"]]
        # What it reads from is started before it.
        used = {host for file in mounted(service) for host, _ in addresses(file)}
        optional = {one for one, other in services.items() if "profiles" in other}
        assert used - {name} - optional <= set(service.get("depends_on", ()))
    for name, port in asked:
        assert port in listens[name], f"{name}:{port}"


def test_grafana_finds_what_is_mounted() -> None:
    """Provisioning files stand where Grafana looks, the dashboards where they say."""
    volumes = read("docker-compose.yml")["services"]["grafana"]["volumes"]
    places = {place: FOLDER / source for source, place, _ in (v.split(":") for v in volumes)}
    provisioning = places["/etc/grafana/provisioning"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/dashboards.yml").read_text())[
        "providers"
    ]
    assert list(places[provider["options"]["path"]].glob("*.json"))
    sources = yaml.safe_load((provisioning / "datasources/datasources.yml").read_text())
    by_uid = {one["uid"]: one for one in sources["datasources"]}
    (exemplar,) = by_uid["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert by_uid[exemplar["datasourceUid"]]["type"] == "jaeger"
    assert exemplar["name"] == "trace_id"


def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    """Prometheus's own check accepts the files as they are mounted, its rules among them."""
    promtool = executable("promtool", "RAGEVAL_PROMTOOL")
    for volume in read("docker-compose.yml")["services"]["prometheus"]["volumes"]:
        source, place, _ = volume.split(":")
        shutil.copy(FOLDER / source, tmp_path / Path(place).name)
    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules = [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]
    assert f"{len(rules)} rules found" in done.stdout


def test_the_collector_uses_what_it_defines() -> None:
    """Each part of a pipeline is defined, and its neighbours are services of the compose file."""
    config = read("collector.yaml")
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
    services = read("docker-compose.yml")["services"]
    assert config["exporters"]["otlp_grpc/jaeger"]["endpoint"].split(":")[0] in services
    scraped = read("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    port = config["exporters"]["prometheus"]["endpoint"].split(":")[1]
    assert scraped == [f"collector:{port}"]


def test_the_collector_decides_after_spans_were_held() -> None:
    """A tail sampler waits longer than a span may be held, and reads attributes that we set."""
    from rag_eval_hooks import semconv
    from rag_eval_hooks.config.settings import RagEvalConfig

    sampling = read("collector.yaml")["processors"]["tail_sampling"]
    assert int(sampling["decision_wait"].rstrip("s")) > RagEvalConfig().hold_timeout
    keys = {
        policy[f"{kind}_attribute"]["key"]
        for policy in sampling["policies"]
        for kind in ("boolean", "string")
        if f"{kind}_attribute" in policy
    }
    assert keys == {semconv.EVAL_PASS, semconv.OPENINFERENCE_SPAN_KIND}


def test_links_in_jaeger_name_attributes_that_spans_have() -> None:
    """The UI file is mounted where the server reads it; each link searches for its own tag."""
    from rag_eval_hooks import semconv

    (command,) = read("docker-compose.yml")["services"]["jaeger"]["command"]
    (volume,) = read("docker-compose.yml")["services"]["jaeger"]["volumes"]
    source, place, _ = volume.split(":")
    assert command.endswith(f"ui.config_file={place}")
    known = {value for value in vars(semconv).values() if isinstance(value, str)}
    for pattern in json.loads((FOLDER / source).read_text())["linkPatterns"]:
        assert pattern["key"] in known
        tags = parse_qs(urlsplit(pattern["url"]).query + "#" + urlsplit(pattern["url"]).fragment)
        assert "#{" + pattern["key"] + "}" in tags["tags"][0]


def test_every_name_is_one_of_ours() -> None:
    """Dashboard and alerts read only metrics and labels that are emitted."""
    from rag_eval_hooks import semconv

    emitted = {
        value.replace(".", "_")
        for name, value in vars(semconv).items()
        if isinstance(value, str) and name.startswith(("METRIC_", "EVAL_", "GEN_AI_"))
    }
    text = PANELS.read_text("utf-8")
    text += (FOLDER / "alerts.yml").read_text("utf-8")
    endings = r"(_seconds)?(_bucket|_sum|_count|_total)?$"
    named = {re.sub(endings, "", name) for name in re.findall(r"(?:rag_eval|gen_ai)_\w+", text)}
    assert named
    assert named <= emitted
