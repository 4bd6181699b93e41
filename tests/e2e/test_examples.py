"""Every example runs as a user runs it, and shows what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    # The first of the answer's two claims stands in the passages, the second does not.
    "langchain_quickstart.py": r"ragas\.faithfulness +0\.50",
    # The tool's artifact holds one passage, which is what the agent repeats.
    "langgraph_agent.py": r"contexts: \['h1'\](.|\n)*faithfulness: 1\.0",
    # Both answers are passages word for word.
    "without_framework.py": r"ferry(.*)faithfulness 1\.0\n(.*)ticket(.*)faithfulness 1\.0",
    "llama_index_quickstart.py": r"ragas\.faithfulness +0\.50",
}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(script: Path, tmp_path: Path) -> None:
    """An example ends well, writes nothing to standard error, and prints its score."""
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(EXPECTED[script.name], done.stdout), done.stdout
