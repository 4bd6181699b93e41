# Everything from nothing: each target makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
# Named before anything that wants torch, so that no other build of it is pulled in.
TORCH ?= torch==2.13.0
ARGS ?=
FRAMEWORK ?= langchain
# The extra that brings the framework.
DEMO_EXTRA = $(if $(filter langchain,$(FRAMEWORK)),demo,demo-$(FRAMEWORK))
# `make demo VIEWER=phoenix` or `jaeger`: start it, send the demo there, print the link; Ctrl-C
# ends it. Jaeger has to be on the PATH.
VIEWER ?=
PHOENIX_VENV ?= .venv-phoenix
MLFLOW_VENV ?= .venv-mlflow

SERVERS_VENV ?= .venv-servers
CHAINLIT_VENV ?= .venv-chainlit
DOCS_VENV ?= .venv-docs

.PHONY: demo dist docs servers viewers apps conformance test test-all lint bench clean

demo: $(DEMO_VENV)/.$(DEMO_EXTRA) $(if $(filter phoenix,$(VIEWER)),$(PHOENIX_VENV)/.installed) 
	$(DEMO_VENV)/bin/python -m examples.demo --framework $(FRAMEWORK) $(if $(VIEWER),--viewer $(VIEWER)) $(if $(filter phoenix,$(VIEWER)),--viewer-command $(PHOENIX_VENV)/bin/phoenix) $(ARGS)

$(DEMO_VENV)/.$(DEMO_EXTRA): pyproject.toml
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/pip install --quiet --upgrade pip
	$(DEMO_VENV)/bin/pip install --quiet --editable ".[$(DEMO_EXTRA),phoenix]"
	touch $@

$(PHOENIX_VENV)/.installed:
	$(PYTHON) -m venv $(PHOENIX_VENV)
	$(PHOENIX_VENV)/bin/pip install --quiet --upgrade pip
	$(PHOENIX_VENV)/bin/pip install --quiet --no-compile "arize-phoenix>=20"
	touch $@

$(MLFLOW_VENV)/.installed:
	$(PYTHON) -m venv $(MLFLOW_VENV)
	$(MLFLOW_VENV)/bin/pip install --quiet --upgrade pip
	$(MLFLOW_VENV)/bin/pip install --quiet --no-compile "mlflow>=3.6"
	touch $@

# Real viewers, a real browser and a real Prometheus; needs Debian's chromium and prometheus.
viewers: $(VENV)/.installed $(DEMO_VENV)/.demo $(PHOENIX_VENV)/.installed $(MLFLOW_VENV)/.installed
	$(VENV)/bin/pip install --quiet --group viewers
	$(VENV)/bin/python -m pytest tests/viewers $(ARGS)

# Zero-code under uvicorn, gunicorn, Flask and `langgraph dev`, by the two documented lines; a notebook.
# `ARGS=--long`: Streamlit and Chainlit too.
LONG_SERVERS = $(if $(findstring --long,$(ARGS)),$(CHAINLIT_VENV))
servers: $(VENV)/.installed $(patsubst %,%/.installed,$(SERVERS_VENV) $(LONG_SERVERS))
	for venv in $(SERVERS_VENV) $(LONG_SERVERS); do $$venv/bin/pip install --quiet --force-reinstall --no-deps . || exit 1; done
	RAGEVAL_SERVERS=$(abspath $(SERVERS_VENV)) RAGEVAL_CHAINLIT=$(abspath $(CHAINLIT_VENV)) $(VENV)/bin/python -m pytest tests/zero_code $(ARGS)

$(SERVERS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(SERVERS_VENV)
	$(SERVERS_VENV)/bin/pip install --quiet --upgrade pip
	$(SERVERS_VENV)/bin/pip install --quiet ".[langchain,instrument]" --group servers
	touch $@

# As a user does who has an application.
$(CHAINLIT_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(CHAINLIT_VENV)
	$(CHAINLIT_VENV)/bin/pip install --quiet --upgrade pip
	$(CHAINLIT_VENV)/bin/pip install --quiet --group chainlit
	$(CHAINLIT_VENV)/bin/pip install --quiet ".[langchain,instrument]"
	touch $@

# Wheel and source archive, checked, and the bill of materials of all extras and tools.
dist: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --group dist
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/check-wheel-contents dist/*.whl
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python tests/typing/api.py
	$(VENV)/bin/cyclonedx-py environment $(VENV) --pyproject pyproject.toml --output-file dist/rag_eval_hooks.cdx.json

# The site, with every link followed and the spelling checked; `mkdocs serve` shows it.
docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict
	$(DOCS_VENV)/bin/codespell README.md CONTRIBUTING.md CHANGELOG.md docs

$(DOCS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --upgrade pip
	$(DOCS_VENV)/bin/pip install --quiet --group docs
	touch $@

# Applications that others wrote, with capture on. `ARGS="--seed 7"`: the sheets of a former run;
# `ARGS=--newest`: the newest versions on PyPI. Environments are in build/apps.
apps:
	$(PYTHON) -m tests.apps $(ARGS)

# The frameworks' own unit tests, without and with capture. `SUITES=langchain-core`: one of them;
# `ARGS=--newest`: the newest versions on PyPI. Archives and environments are in build/conformance.
SUITES ?=
conformance:
	$(PYTHON) -m tests.conformance $(SUITES) $(ARGS)

# More workers than cores: many tests wait for a time-out or a process.
WORKERS ?= 6

# The quick suite: every law, in less than four minutes on two cores.
test: $(VENV)/.installed
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/viewers $(ARGS)

# Everything, at full size.
test-all: $(VENV)/.installed
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal --long --ignore tests/viewers $(ARGS)

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# A table of each part, and its rows as JSON in build/bench; `PARTS=kill9`: one of them. The last
# makes the environments of other libraries and writes docs/benchmarks.md from all rows.
# `QUICK=1`: small sizes, whose figures scatter, and no page.
PARTS ?= handler_overhead llama_index_overhead judge_calls sink_throughput kill9 peers
QUICK ?=
handler_overhead_QUICK = --rounds 5
llama_index_overhead_QUICK = --rounds 5
judge_calls_QUICK = --samples 10
sink_throughput_QUICK = --samples 50
kill9_QUICK = --kills 5
kill9_FULL = --kills 30
peers_QUICK = --rounds 5 --requests 50 --samples 8
peers_FULL = --page
bench: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --group bench
	$(foreach part,$(PARTS),$(VENV)/bin/python -m benchmarks.$(part) $($(part)_$(if $(QUICK),QUICK,FULL)) --json build/bench/$(part).json &&) true

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet $(TORCH)
	$(VENV)/bin/pip install --quiet --editable ".[all]" --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(PHOENIX_VENV) $(MLFLOW_VENV) $(SERVERS_VENV) $(CHAINLIT_VENV) $(DOCS_VENV) build dist demo-output
