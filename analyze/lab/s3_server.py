# SPDX-License-Identifier: Apache-2.0
"""A local server of S3 for tests and measurements: moto behind a proxy that can misbehave.

    with s3_server.Server(failing=0.05) as server:
        store = open_store("s3://fleet/x")     # server.environment leads there

The proxy answers 503 to a share of the requests, drops all of them while it is `down`, and lists
the others in `requests`. A request whose client died before all of it was sent goes no further.
"""

from __future__ import annotations

import http.client
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

BUCKET = "fleet"
_WAIT_S = 60
_SERVE = "import sys; from moto.server import main; main(sys.argv[1:])"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def _pass_on(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if len(body) < size or self.server.down:
            self.close_connection = True
            return
        if self.command in self.server.denied:
            self._answer(403, b"", {})
            return
        if self.server.fails():
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>", {})
            return
        with self.server.lock:
            self.server.requests.append((self.command, self.path))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=_WAIT_S)
        connection.request(self.command, self.path, body, dict(self.headers))
        found = connection.getresponse()
        self._answer(found.status, found.read(), dict(found.headers))
        connection.close()

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if self.command != "HEAD":
            headers["Content-Length"] = str(len(body))
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if self.command == "HEAD" and "Content-Length" not in headers:
            self.send_header("Content-Length", "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on

    def log_message(self, format: str, *args: Any) -> None:
        """No line for each request."""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behind: int, failing: float, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.failing, self.down = behind, failing, False
        self.denied: set[str] = set()  # methods that get a 403
        self.requests: list[tuple[str, str]] = []
        self.failed = 0
        self.lock = Lock()
        self._random = random.Random(seed)

    def fails(self) -> bool:
        with self.lock:
            failed = self._random.random() < self.failing
            self.failed += failed
            return failed

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error."""


class Server:
    """The server, with one empty bucket; `failing` is the share of requests that get a 503."""

    def __init__(self, failing: float = 0.0, seed: int = 1) -> None:
        self._failing, self._seed = failing, seed
        self._stack = ExitStack()

    def __enter__(self) -> Server:
        with self._stack.pop_all() as stack:
            port = _free_port()
            moto = subprocess.Popen(
                [sys.executable, "-c", _SERVE, "-H", "127.0.0.1", "-p", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(moto.wait)
            stack.callback(moto.kill)
            self._make_bucket(port, moto)
            self.proxy = _Proxy(port, self._failing, self._seed)
            stack.callback(self.proxy.server_close)
            thread = Thread(target=self.proxy.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(self.proxy.shutdown)
            self._stack = stack.pop_all()
        return self

    def _make_bucket(self, port: int, moto: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _WAIT_S
        while True:
            with suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
                connection.request("PUT", f"/{BUCKET}")
                status = connection.getresponse().status
                connection.close()
                assert status == 200, status
                return
            assert moto.poll() is None, "moto ended"
            assert time.monotonic() < end, "moto does not answer"
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server_port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
        }

    def use(self) -> None:
        """Lead this process, and those that it starts, to the server."""
        os.environ |= self.environment
