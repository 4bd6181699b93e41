"""An alert when answers become worse, posted to a webhook; here the webhook prints it.

python examples/alerts.py
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from rag_eval_hooks import RagEval
from rag_eval_hooks.results import AlertSink


class Webhook(BaseHTTPRequestHandler):
    """Stands in for Slack or another chat."""

    def do_POST(self) -> None:
        """Print the alert."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(body["text"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing else."""


def main() -> None:
    """Answer forty questions, the last thirty wrongly."""
    with HTTPServer(("127.0.0.1", 0), Webhook) as webhook:
        threading.Thread(target=webhook.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{webhook.server_port}"
        alerts = AlertSink(url, "ragas.faithfulness<0.8", by="workflow")
        with RagEval(metrics=["ragas.faithfulness"], sinks=[alerts]) as evals:
            for number in range(40):
                minute = "40" if number < 10 else "55"
                with evals.interaction(f"When does ferry {number} leave?") as it:
                    it.contexts([f"Ferry {number} leaves at 07:40."])
                    it.answer(f"Ferry {number} leaves at 07:{minute}.")
        webhook.shutdown()


if __name__ == "__main__":
    main()
