"""A server that is no Messages API: what it says to whatever it is asked."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Answers:
    """A server that gives one status, headers and body to whatever it is asked; 404 to all but ``only``."""

    def __init__(
        self, status: int = 200, body: bytes = b"", *, only: str | None = None, **headers: str
    ) -> None:
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.keys.append(self.headers.get("authorization"))
                known = only is None or self.path == only
                self.send_response_only(status if known else 404)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Answers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
