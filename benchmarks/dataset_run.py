"""Throughput and peak memory of `rag-eval-hooks evaluate` by the number of rows.

python -m benchmarks.dataset_run [--rows 1000 100000 1000000] [--metrics lexical]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write(path: Path, rows: int) -> None:
    """Write a data set of short rows."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            text = f"Ferry {number} leaves at 06:{number % 60:02}."
            row = {
                "question": f"When does ferry {number} leave?",
                "contexts": [text, "Dogs travel free."],
                "answer": text,
                "reference": text,
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--metrics", default="lexical")
    arguments = parser.parse_args()
    print(f"{'rows':>10}{'rows/s':>10}{'peak MB':>10}")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "data.jsonl")
            write(path, rows)
            command = (sys.executable, "-m", "rag_eval_hooks.cli.main", "evaluate", str(path))
            began = time.monotonic()
            process = subprocess.Popen(
                (*command, "--metrics", arguments.metrics), stdout=subprocess.DEVNULL
            )
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.monotonic() - began
            if status:
                raise SystemExit(f"the run of {rows} rows ended with status {status}")
        print(f"{rows:>10,}{rows / seconds:>10.0f}{used.ru_maxrss / 1000:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
