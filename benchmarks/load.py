"""Load over HTTP: as many connections as asked, each sends its next request when it has its answer.

python -m benchmarks.load --port 8081 --requests FILE --connections 8
FILE has a JSON body a line for POST /predict, or a path a line for GET. Prints JSON: seconds, and milliseconds of each
request; with --probe also those of GET /healthz, asked every 20 ms meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

PROBE_SECONDS = 0.02


class LoadError(RuntimeError):
    """A server that did not answer with 200."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What was measured; milliseconds are in the order of the answers."""

    seconds: float
    milliseconds: list[float]
    probes: list[float]


def message(line: str) -> bytes:
    """One HTTP request: a line that begins with "/" is a path, any other a JSON body."""
    if line.startswith("/"):
        return f"GET {line} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    body = line.encode()
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send one request and read its answer. Raises LoadError unless it is 200."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    named = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    body = await reader.readexactly(int(named["content-length"]))
    if status.split()[1] != "200":
        raise LoadError(f"{status}: {body[:200]!r}")


async def run(port: int, requests: list[bytes], *, connections: int, probe: bool) -> Load:
    """Send all requests."""
    left = iter(requests)
    milliseconds: list[float] = []
    probes: list[float] = []

    async def client(requests: Iterator[bytes], times: list[float], pause: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for request in requests:
                began = time.perf_counter()
                await ask(reader, writer, request)
                times.append((time.perf_counter() - began) * 1e3)
                if pause:
                    await asyncio.sleep(pause)
        finally:
            writer.close()

    async def probing() -> None:
        await client(iter(lambda: message("/healthz"), b""), probes, PROBE_SECONDS)

    meanwhile = asyncio.create_task(probing()) if probe else None
    began = time.perf_counter()
    await asyncio.gather(*(client(left, milliseconds, 0) for _ in range(connections)))
    seconds = time.perf_counter() - began
    if meanwhile:
        if meanwhile.done():  # only when it failed
            await meanwhile
        meanwhile.cancel()
    return Load(seconds=seconds, milliseconds=milliseconds, probes=probes)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--probe", action="store_true")
    options = parser.parse_args()
    requests = [message(line) for line in options.requests.read_text(encoding="utf-8").splitlines()]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(run(options.port, requests, connections=options.connections, probe=options.probe))
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
