"""Overload, changes of models, shutting down: with traffic, nothing cut and nothing wrong."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.windows import cut
from tests.model_code.question_answering.tiny_qa import questions
from tests.serving.question_answering.qa_server import Answer, Server, alone, serve
from tests.support.waiting import eventually

LONG = {"question": "where?", "context": "the old bridge " * 2500}


@contextlib.contextmanager
def traffic(server: Server, clients: int = 4) -> Iterator[list[Answer]]:
    """Clients that ask without pause until the block ends, or until an answer tells them to close."""
    answers: list[Answer] = []
    end = threading.Event()

    def client(number: int) -> None:
        connection = server.connect()
        for question, context in questions(100_000, longest=40, seed=number):
            if end.is_set():
                return
            answer = server.ask("POST", "/predict", {"question": question, "context": context}, connection=connection)
            answers.append(answer)
            if answer.headers.get("connection") == "close":
                return

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client, number) for number in range(clients)]
        try:
            yield answers
        finally:
            end.set()
        for one in running:
            one.result()


def test_a_full_queue_refuses_and_recovers(folders: list[Path], models: list[CompiledModel]) -> None:
    """Long requests hold most places, so of those that come meanwhile some find the queue full."""
    rows = len(cut(models[0].tokenizer, LONG["question"], LONG["context"], length=640, stride=16, max_windows=64))
    places = 2 * rows
    pairs = questions(places + 1, longest=60, seed=9)
    found: list[tuple[Answer, tuple[str, str]]] = []
    end = threading.Event()
    with serve(MODEL_SOURCE=str(folders[0]), QUEUE_ROWS=str(places)) as server:

        def fill() -> set[int]:
            statuses = set()
            while not end.is_set():
                statuses.add(server.ask("POST", "/predict", LONG).status)
            return statuses

        def both_seen() -> bool:
            found.extend((server.predict(*pair), pair) for pair in pairs[:24])
            return {answer.status for answer, _ in found} == {200, 503}

        with ThreadPoolExecutor(3) as pool:
            filling = [pool.submit(fill) for _ in range(3)]
            try:
                eventually(both_seen)
            finally:
                end.set()
            assert set().union(*(one.result() for one in filling)) == {200, 503}
        for answer, pair in found:
            if answer.status == 503:
                assert answer.headers["retry-after"] == "1"
            else:
                assert answer.json["start"] == alone(models[0], *pair).start
        inputs = [{"question": question, "context": context} for question, context in pairs]
        many = server.ask("POST", "/predict", {"inputs": inputs})
        assert (many.status, many.headers["retry-after"]) == (503, "1")
        assert server.predict(*pairs[0]).status == 200
        assert server.metric("torchlift_pending_rows") == 0


def test_health_answers_while_the_model_runs(server: Server) -> None:
    """The event loop is free: health checks are answered before a long request is."""
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(server.ask, "POST", "/predict", {"inputs": [LONG] * 3})
        healthy = 0
        while not long.done():
            assert server.ask("GET", "/healthz").status == 200
            healthy += not long.done()
        assert long.result().status == 200
    assert healthy >= 5


def write_list(path: Path, **sources: Path | tuple[Path, float]) -> None:
    models = []
    for name, source in sources.items():
        folder, weight = source if isinstance(source, tuple) else (source, 1)
        models.append({"name": name, "source": str(folder), "weight": weight})
    path.with_suffix(".new").write_text(json.dumps({"schema": 1, "models": models}))
    path.with_suffix(".new").replace(path)


def test_models_change_under_traffic(folders: list[Path], models: list[CompiledModel], tmp_path: Path) -> None:
    listed = tmp_path / "models.json"
    write_list(listed, old=folders[0])
    question, context = next(
        pair for pair in questions(50, longest=40, seed=4) if alone(models[0], *pair) != alone(models[1], *pair)
    )

    def shown(server: Server) -> dict[str, str]:
        return {model["name"]: model["source"] for model in server.ask("GET", "/models").json["models"]}

    with serve(MODELS=str(listed)) as server, traffic(server) as answers:
        eventually(lambda: len(answers) > 20)
        write_list(listed, old=folders[0], new=(folders[1], 3))
        eventually(lambda: "new" in shown(server))
        first = len(answers)
        eventually(lambda: len(answers) > first + 80)
        # Shares of the traffic follow the weights, but for requests that were under way.
        shares = Counter(answer.json["model"] for answer in answers[first + 10 :])
        assert shares["new"] == pytest.approx(3 * shares["old"], abs=20)

        listed.write_text("{}")  # a mistake changes nothing
        eventually(lambda: server.ask("GET", "/models").json["problem"])
        assert set(shown(server)) == {"old", "new"}

        write_list(listed, new=folders[1])
        eventually(lambda: set(shown(server)) == {"new"})
        assert server.predict(question, context, X_Request_Id="after").json["start"] == (
            alone(models[1], question, context).start
        )
        assert server.ask("POST", "/predict", {"question": "a", "context": "b", "model": "old"}).status == 404
        eventually(lambda: any(line["event"] == "model unloaded" for line in server.log()))

        write_list(listed, new=tmp_path / "nowhere")
        eventually(lambda: "no such folder" in (server.ask("GET", "/models").json["problem"] or ""))
        write_list(listed, new=folders[0])  # the same name, another model
        eventually(lambda: shown(server) == {"new": str(folders[0])})
        last = len(answers)
        eventually(lambda: len(answers) > last + 20)
    assert Counter(answer.status for answer in answers) == {200: len(answers)}


def test_sigterm_under_load_cuts_nothing(folders: list[Path]) -> None:
    with (
        serve(MODEL_SOURCE=str(folders[0]), DRAIN_DELAY_SECONDS="1.5") as server,
        ThreadPoolExecutor(1) as pool,
        traffic(server) as answers,
    ):
        eventually(lambda: len(answers) > 20)
        asked: list[Future[Answer]] = []

        def full() -> bool:
            """Whether a long request waits just now; one that was too quick to be seen is asked again."""
            if not asked or asked[-1].done():
                asked.append(pool.submit(server.ask, "POST", "/predict", {"inputs": [LONG] * 3}))
            return server.metric("torchlift_pending_rows") > 30

        eventually(full)
        server.terminate()
        eventually(lambda: server.ask("GET", "/readyz").status == 503)
        assert server.ask("GET", "/healthz").status == 200  # shutting down is no illness
        server.child.wait(60)
        assert {long.result().status for long in asked} == {200}
        assert server.child.poll() == 0
        assert server.log()[-1]["event"] == "stopped"
        with pytest.raises(ConnectionRefusedError):
            server.ask("GET", "/healthz")
    # Every client got an answer to every request, and the last one told it to go elsewhere.
    assert Counter(answer.status for answer in answers) == {200: len(answers)}
    assert sum(answer.headers.get("connection") == "close" for answer in answers) == 4


def test_not_ready_until_a_model_has_answered(folders: list[Path], tmp_path: Path) -> None:
    listed = tmp_path / "models.json"
    write_list(listed, only=tmp_path / "nowhere")
    with serve(MODELS=str(listed), wait=False) as server:
        eventually(lambda: _status(server, "/healthz") == 200, 60)
        eventually(lambda: "no such folder" in server.ask("GET", "/readyz").json["error"])
        answer = server.predict("where?", "here")
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        write_list(listed, only=folders[0])
        eventually(lambda: server.ask("GET", "/readyz").status == 200)
        assert server.predict("where?", "here").status == 200


def test_a_model_that_computes_something_else_is_not_served(folders: list[Path], tmp_path: Path) -> None:
    """The recorded logits are of one model, the compiled file is of another."""
    for file in folders[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.pt").write_bytes((folders[1] / "model.pt").read_bytes())
    with serve(MODEL_SOURCE=str(tmp_path), wait=False) as server:
        eventually(lambda: _status(server, "/healthz") == 200, 60)
        eventually(lambda: "a logit differs by" in server.ask("GET", "/readyz").json["error"])


def _status(server: Server, path: str) -> int:
    try:
        return server.ask("GET", path).status
    except OSError:
        return 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_memory_stays_flat(folders: list[Path], tmp_path: Path) -> None:
    """Two minutes of traffic and of models that come and go; the first half minute fills caches."""
    listed = tmp_path / "models.json"
    write_list(listed, one=folders[0])

    def size(server: Server) -> int:
        return int(server.ask("GET", "/models").json["process_bytes"])

    with serve(MODELS=str(listed)) as server, traffic(server) as answers:
        sizes = []
        began = time.monotonic()
        turn = 0
        while time.monotonic() < began + 120:
            turn += 1
            write_list(listed, one=folders[turn % 2])
            time.sleep(1)
            sizes.append(size(server))
    assert Counter(answer.status for answer in answers) == {200: len(answers)}
    early, late = sizes[30:45], sizes[-15:]
    assert sum(late) / len(late) < sum(early) / len(early) * 1.05 + 10e6
