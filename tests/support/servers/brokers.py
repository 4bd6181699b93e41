"""Real Redis and RabbitMQ on loopback, of Debian, which can be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tests.support.ports import free_port
from tests.waiting import PATIENCE, until

REDIS: Final = shutil.which("redis-server")
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Not Debian's script of that name, which runs as another user."""


class _BrokerServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def start(self) -> None:
        command, variables = self.command()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        until(self.answers, f"the start of {type(self).__name__}")

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, sign)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                # On a busy machine its end may take longer than it is worth waiting for.
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


class RedisServer(_BrokerServer):
    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)

    def command(self) -> tuple[list[str], dict[str, str]]:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "always"]
        return [str(REDIS), *options], {}


class RabbitServer(_BrokerServer):
    def __init__(self, folder: Path, redis: RedisServer) -> None:
        super().__init__(folder)
        self.redis = redis
        self._mapper, self._nodes = free_port(), free_port()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//,{self.redis.url}"

    def command(self) -> tuple[list[str], dict[str, str]]:
        here = str(self.folder)
        return [str(RABBITMQ)], {
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._nodes),
            "RABBITMQ_MNESIA_BASE": here,
            "RABBITMQ_LOG_BASE": here,
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{here}/plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -setcookie test",
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "HOME": here,
        }

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        super().stop(sign)
        variables = {**os.environ, **self.command()[1]}
        subprocess.run(["epmd", "-kill"], env=variables, capture_output=True, check=False)
