"""Asks the Streamlit page in this process, as a browser would, and ends by SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from streamlit.testing.v1 import AppTest

shown = AppTest.from_file(str(Path(__file__).with_name("chat.py")), default_timeout=60).run()
for step in sys.argv[1:]:
    if step == "ingest":
        shown.button[0].click().run()
    else:
        shown.chat_input[0].set_value(f"Which key opens locker {step}?").run()
    print(shown.markdown[0].value, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(60)
