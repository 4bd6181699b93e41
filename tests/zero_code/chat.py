"""A Streamlit page that knows nothing of evaluation."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit

sys.path.insert(0, str(Path(__file__).parent))
from web import PROMPT, _ingest, clerk, shelf

if streamlit.button("Ingest"):
    streamlit.write(_ingest())
if question := streamlit.chat_input("Your question"):
    context = shelf.invoke(question)[0].page_content
    said = clerk.stream(PROMPT.format(context=context, question=question))
    streamlit.write_stream(str(chunk.content) for chunk in said)
