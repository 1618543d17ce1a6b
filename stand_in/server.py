"""The stand-in for AWS: moto's services behind our CloudFormation, our hooks and our own pages, on loopback only."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stand_in.environment import ACCOUNT, NOBODY, access_key_of_role, scrub_process_environment

HOST = "127.0.0.1"
Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Page = Callable[[str], Any]


class Application:
    """WSGI: routes by the service in the request's signature.

    `moto` answers one request at a time (`Site.locked`): its backends were not made for many threads.
    """

    def __init__(
        self, *, moto: Callable[..., Iterable[bytes]], cloudformation: Any, hooks: Any, record: Any = None
    ) -> None:
        self._moto = moto
        self._cloudformation = cloudformation
        self._hooks = hooks
        self._record = record
        self._pages: dict[str, Page] = {}

    def page(self, path: str, page: Page) -> None:
        """Answer GET `path` with the JSON that `page(query_string)` returns."""
        self._pages[path] = page

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith("/_torchlift/"):
            return self._own(environ, start_response, path)
        if self._record is not None and not path.startswith("/moto-api/"):
            refused = self._record.see(environ, lambda: _read_body(environ), _headers(environ))
            if refused is not None:
                return _send(start_response, refused)
        service, region = _signed_for(environ.get("HTTP_AUTHORIZATION", ""))
        if service != "cloudformation" and not self._hooks.wants(service):
            return self._moto(environ, start_response)
        return self._read_and_route(environ, start_response, service, region)

    def _read_and_route(
        self, environ: Environ, start_response: StartResponse, service: str, region: str
    ) -> Iterable[bytes]:
        from stand_in.cloudformation import protocol
        from stand_in.hooks import Call, action_of

        body = _read_body(environ)
        headers = _headers(environ)
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        action = action_of(service=service, method=method, path=path, headers=headers, body=body)
        call = Call(service=service, action=action, region=region, method=method, path=path, headers=headers, body=body)
        if service == "cloudformation":
            return _send(start_response, protocol.answer(self._cloudformation, call))
        instead = self._hooks.replacement(service, action)
        if instead is not None:
            return _send(start_response, instead(call))
        captured: list[Any] = []

        def capture(status: str, response_headers: Any, exc_info: Any = None) -> None:
            captured[:] = [status, response_headers]

        response = b"".join(self._moto(environ, capture))
        status = int(captured[0].split()[0])
        if status < 300:
            self._hooks.run_after(Call(**{**vars(call), "status": status, "response": response}))
        start_response(*captured)
        return [response]

    def _own(self, environ: Environ, start_response: StartResponse, path: str) -> Iterable[bytes]:
        from stand_in.hooks import Answer

        if environ["REQUEST_METHOD"] == "PUT":
            status = self._cloudformation.mailbox.put(path, environ.get("CONTENT_TYPE", ""), _read_body(environ))
            return _send(start_response, Answer(status=status, body=b""))
        page = self._pages.get(path)
        if page is None:
            return _send(start_response, Answer(status=404, body=b"{}"))
        body = json.dumps(page(environ.get("QUERY_STRING", "")), default=str).encode()
        return _send(start_response, Answer(status=200, body=body, headers={"Content-Type": "application/json"}))


def _signed_for(authorization: str) -> tuple[str, str]:
    """Service and region of a signature version 4 header; empty for an unsigned request."""
    _, _, scope = authorization.partition("Credential=")
    parts = scope.split(",")[0].strip().split("/")
    return (parts[3], parts[2]) if len(parts) >= 5 else ("", "")


def _read_body(environ: Environ) -> bytes:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    if not length and environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        body = environ["wsgi.input"].read()
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _headers(environ: Environ) -> dict[str, str]:
    found = {
        key.removeprefix("HTTP_").replace("_", "-").title(): str(value)
        for key, value in environ.items()
        if key.startswith("HTTP_")
    }
    found["Content-Type"] = environ.get("CONTENT_TYPE", "")
    return found


def _send(start_response: StartResponse, answer: Any) -> Iterable[bytes]:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}
    start_response(f"{answer.status} -", list(headers.items()))
    return [answer.body]


def serve(*, port: int, state_dir: Path, ready_file: Path | None, root: Path, mode: str) -> None:
    """Serve until SIGTERM."""
    scrub_process_environment()
    os.environ.update(
        # Of a child that is given no environment of its own.
        AWS_ACCESS_KEY_ID=access_key_of_role(NOBODY),
        AWS_SECRET_ACCESS_KEY="testing",
        MOTO_IAM_LOAD_MANAGED_POLICIES="true",
        MOTO_LAMBDA_USE_DOCKER="false",
    )
    from werkzeug.serving import make_server

    from stand_in.assembly import assemble, request_handler

    server = make_server(HOST, port, app=lambda *_: [], threaded=True, request_handler=request_handler())
    base_url = f"http://{HOST}:{server.server_port}"
    application, close = assemble(base_url=base_url, account=ACCOUNT, state_dir=state_dir, root=root, mode=mode)
    server.app = application

    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if ready_file:
        temporary = ready_file.with_suffix(".tmp")
        temporary.write_text(json.dumps({"base_url": base_url, "pid": os.getpid()}))
        temporary.replace(ready_file)
    print(f"stand-in for AWS on {base_url}", flush=True)
    try:
        server.serve_forever()
    finally:
        close()
        server.server_close()


def main() -> int:
    """`python -m stand_in.server`."""
    parser = argparse.ArgumentParser(prog="python -m stand_in.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--state-dir", type=Path, default=Path("build/stand_in"), help="logs and working files")
    parser.add_argument("--ready-file", type=Path, help="written, with the address, once requests are answered")
    parser.add_argument("--mode", default="direct", help="how jobs are executed: direct or images")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    arguments.state_dir.mkdir(parents=True, exist_ok=True)
    serve(
        port=arguments.port,
        state_dir=arguments.state_dir.resolve(),
        ready_file=arguments.ready_file,
        root=root,
        mode=arguments.mode,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
