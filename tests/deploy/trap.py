"""A loopback server that must never be called, and an environment in which careless clients would call it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Trap:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        trap = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                trap.calls.append(self.raw_requestline.decode(errors="replace").strip())
                self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def environment(self, folder: Path) -> dict[str, str]:
        """Real-looking credentials, profiles, endpoints and proxies that all lead here."""
        config = folder / "config"
        config.write_text(
            f"[default]\nregion = eu-west-1\nendpoint_url = {self.url}\n[profile prod]\nendpoint_url = {self.url}\n"
        )
        credentials = folder / "credentials"
        keys = "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\n"
        keys += "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"
        credentials.write_text(f"[default]\n{keys}[prod]\n{keys}")
        services = (
            "S3",
            "STS",
            "CLOUDFORMATION",
            "ECR",
            "IAM",
            "SSM",
            "SAGEMAKER",
            "SAGEMAKER_RUNTIME",
            "EC2",
            "CODEBUILD",
        )
        return {
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEXAMPLE",
            "AWS_PROFILE": "prod",
            "AWS_DEFAULT_PROFILE": "prod",
            "AWS_REGION": "eu-west-1",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_CONFIG_FILE": str(config),
            "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/credentials",
            "CDK_DEFAULT_ACCOUNT": "210987654321",
            "CDK_DEFAULT_REGION": "eu-west-1",
            "HTTP_PROXY": self.url,
            "HTTPS_PROXY": self.url,
            "http_proxy": self.url,
            "https_proxy": self.url,
            "HF_ENDPOINT": self.url,
        } | {f"AWS_ENDPOINT_URL_{service}": self.url for service in services}


@contextmanager
def trap() -> Iterator[Trap]:
    """A listening trap for the length of the block."""
    made = Trap()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(timeout=5)
