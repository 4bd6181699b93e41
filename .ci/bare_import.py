"""Checks an installation without extras: what is imported, how long it takes, that it works."""

import subprocess
import sys

COUNT = """
import sys
before = len(sys.modules)
import time
began = time.process_time()
import rag_eval_hooks
print(time.process_time() - began, len(sys.modules) - before)
print(*{name.partition(".")[0] for name in sys.modules})
"""
FORBIDDEN = {"langchain_core", "llama_index", "openai", "torch", "numpy", "rich", "tenacity"}
MOST_MODULES = 450  # a heavy import brings hundreds

runs = [
    subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    for _ in range(5)
]
figures = [run.stdout.splitlines()[0].split() for run in runs]
seconds, modules = min(float(figure[0]) for figure in figures), int(figures[0][1])
print(f"import rag_eval_hooks: {seconds * 1000:.0f} ms (best of 5), {modules} modules")
assert modules < MOST_MODULES
assert not FORBIDDEN & set(runs[0].stdout.splitlines()[1].split())

exec("from rag_eval_hooks import *")
from rag_eval_hooks import RagEval, Sample, Score  # noqa: E402

evals = RagEval(sinks=["console"])
sample = Sample(question="When?", contexts=["It opened in 1931."], answer="It opened in 1931.")
assert evals.submit(sample)
assert evals.flush()
outcomes = evals.evaluate(sample)
faithfulness = outcomes["ragas.faithfulness"]
assert isinstance(faithfulness, Score)
assert faithfulness.value == 1.0

for module in ("rag_eval_hooks_langchain", "rag_eval_hooks_llama_index"):
    try:
        __import__(module)
    except ImportError as error:
        assert "pip install" in str(error), error
        print(error)
    else:
        raise AssertionError(f"{module} imports without its extra")
