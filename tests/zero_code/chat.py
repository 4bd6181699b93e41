"""A Streamlit page that knows nothing of evaluation."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit

sys.path.insert(0, str(Path(__file__).parent))
from web import ingest, shelf, words

if streamlit.button("Ingest"):
    streamlit.write(ingest())
if question := streamlit.chat_input("Your question"):
    streamlit.write_stream(words(question, shelf.invoke(question)))
