"""A hub of models on loopback: one model at one revision, as the Hugging Face hub's API answers."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@contextmanager
def hub(folder: Path, *, name: str, revision: str) -> Iterator[str]:
    """Serve the files of `folder` as the model `name` (`owner/name`); yields the address, for HF_ENDPOINT."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    api, resolve = f"/api/models/{name}", f"/{name}/resolve/{revision}/"
    listed = [{"type": "file", "path": file, "size": len(body), "oid": _etag(body)} for file, body in files.items()]
    documents: dict[str, Any] = {
        f"{api}/revision/{revision}": {
            "id": name,
            "sha": revision,
            "siblings": [{"rfilename": file} for file in files],
        },
        f"{api}/tree/{revision}": listed,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path in documents:
                self._answer(json.dumps(documents[path]).encode(), "application/json")
            elif path.startswith(resolve) and path.removeprefix(resolve) in files:
                self._answer(files[path.removeprefix(resolve)], "application/octet-stream")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        do_HEAD = do_GET

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{_etag(body)}"')
            self.send_header("X-Repo-Commit", revision)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _etag(body: bytes) -> str:
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()
