# Names for what nox does (noxfile.py); each makes the environment it needs, from nothing.
PYTHON ?= python3
# For the command that runs: `make test ARGS=tests/golden`.
ARGS ?=
# `make demo FRAMEWORK=llama-index`; `VIEWER=phoenix` or `jaeger` starts it and sends the demo there.
FRAMEWORK ?= langchain
VIEWER ?=
NOX := build/nox/bin/nox
ifeq ($(filter langchain llama-index,$(FRAMEWORK)),)
$(error FRAMEWORK is '$(FRAMEWORK)', but must be langchain or llama-index)
endif

.PHONY: demo test test-long test-all lint types dist docs servers viewers apps conformance bench clean

demo: $(NOX)
	$(NOX) -s "demo($(FRAMEWORK))" -- $(if $(VIEWER),--viewer $(VIEWER)) $(ARGS)

test test-long test-all lint types dist docs servers viewers apps conformance bench: $(NOX)
	$(NOX) -s $@ -- $(ARGS)

$(NOX):
	$(PYTHON) -m venv build/nox
	build/nox/bin/pip install --quiet "nox[uv]>=2024.10.9"

clean:
	rm -rf build dist .nox .venv site .coverage
