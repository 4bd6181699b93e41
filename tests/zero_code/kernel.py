"""Runs the cells of its input in a Jupyter kernel, prints their tables, and ends the kernel."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3")
shown: list[str] = []


def show(message: dict[str, Any]) -> None:
    """Keep tables, and end with the traceback of a cell that fails."""
    content = message["content"]
    if message["msg_type"] == "error":
        sys.exit("\n".join(content["traceback"]))
    shown.append(content.get("data", {}).get("text/html", ""))


for cell in sys.stdin.read().split("# %%\n"):
    client.execute_interactive(cell, timeout=60, output_hook=show)
print(json.dumps([*filter(None, shown)]))
if sys.argv[1] == "SIGTERM":
    manager.signal_kernel(signal.SIGTERM)
    while manager.is_alive():
        time.sleep(0.05)
else:
    manager.shutdown_kernel()
client.stop_channels()
