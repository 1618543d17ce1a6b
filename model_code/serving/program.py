"""The ASGI server program, and how it ends. The one place that knows which program it is."""

from __future__ import annotations

import asyncio
import gc
import signal
from types import FrameType

import uvicorn

from model_code.serving import app
from model_code.serving.log import log
from model_code.serving.service import Service
from model_code.serving.settings import Settings
from model_code.serving.workload import Workload

# Longer than nginx keeps idle connections (60 s), so it is never the server that closes one that is about to be used.
KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """uvicorn, with a pause between the signal and the closed port, and without dying of the signal afterwards."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: stop gently. Second: at once."""
        if self._service.draining:
            self.should_exit = self.force_exit = True
            return
        self._service.draining = True
        log("draining", signal=signal.Signals(sig).name, pending_rows=self._service.pending)
        asyncio.get_running_loop().call_soon_threadsafe(
            lambda: asyncio.get_running_loop().call_later(self._service.settings.drain_delay_seconds, self._close)
        )

    def _close(self) -> None:
        self.should_exit = True


def serve(settings: Settings, workload: Workload) -> int:
    """Serve until a signal; returns the exit status."""
    service = Service(settings, workload)
    config = uvicorn.Config(
        app.create(service),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.drain_timeout_seconds,
    )
    server = _Server(config, service)
    log("starting", workload=workload.name, core=settings.core, host=settings.host, port=settings.port)
    # What was imported stays for ever; to look through it again and again took a sixth of the event loop's time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    server.run()
    log("stopped", started=server.started)
    return 0 if server.started else 1
