"""Asks every core a question through nginx, until all have answered right or the time is over.

python3 check.py --cores 2 --seconds 600 [--address 127.0.0.1:8080] [--token-file FILE]

Right is an answer of that core that is a span of the context, or none; and one model gives one answer on every core.
That a model computes what it was compiled from is checked by the server itself, before it opens its port. Prints why
on stderr and exits with 1 when a core did not answer. Standard library and Python 3.9: it runs with the host's Python.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
from pathlib import Path
from typing import Any

QUESTION = "When was the old bridge built?"
CONTEXT = "The old bridge over the river was built in 1843. Since 1990 it carries a footpath, and no cars."
REQUEST_SECONDS = 30
PAUSE_SECONDS = 1.0


class WrongError(Exception):
    """What came back is not a right answer."""


def ask(address: str, path: str, token: str) -> Any:
    """The answer of POST path at address:port. Raises WrongError."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection = http.client.HTTPConnection(address, timeout=REQUEST_SECONDS)
    try:
        connection.request("POST", path, json.dumps({"question": QUESTION, "context": CONTEXT}), headers)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise WrongError(f"{response.status} {body[:300].decode('utf-8', 'replace')}")
        return json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WrongError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()


def judge(answer: Any, core: int | None) -> None:
    """Raises WrongError unless it is an answer to the question by that core."""
    try:
        text, start, end, score = answer["text"], answer["start"], answer["end"], answer["score"]
        if text != CONTEXT[start:end] or bool(text) != answer["has_answer"] or not 0 <= score <= 1:
            raise WrongError(f"no span of the context: {json.dumps(answer)[:300]}")
        if core is not None and answer["core"] != core:
            raise WrongError(f"core {answer['core']} answered for it")
    except (KeyError, TypeError):
        raise WrongError(f"not an answer: {json.dumps(answer)[:300]}") from None


def check(*, address: str, cores: int, seconds: float, token: str) -> dict[str, str]:
    """What is wrong with which cores, or with the path that clients use; empty when all have answered right.

    nginx takes a server off the balanced path for a second when it refuses a connection, as one does that has just
    started: that path is asked when the cores have answered, and again until it does.
    """
    ends = time.monotonic() + seconds
    answers: dict[int, Any] = {}
    while True:
        wrong: dict[str, str] = {}
        for core in range(cores):
            if core in answers:
                continue
            try:
                answer = ask(address, f"/cores/{core}/predict", token)
                judge(answer, core)
                answers[core] = answer
            except WrongError as error:
                wrong[f"core {core}"] = str(error)
        if not wrong:
            try:
                judge(ask(address, "/predict", token), None)
                return _differences(answers)
            except WrongError as error:
                wrong["POST /predict"] = str(error)
        if time.monotonic() > ends:
            return wrong
        time.sleep(PAUSE_SECONDS)


def _differences(answers: dict[int, Any]) -> dict[str, str]:
    """Cores whose model gave another text than the same model on the first core that has it."""
    first: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for core, answer in sorted(answers.items()):
        known = first.setdefault(answer["model"], answer)
        if answer["text"] != known["text"]:
            told = f"{answer['model']} answers {answer['text']!r}, but {known['text']!r} on core {known['core']}"
            wrong[f"core {core}"] = told
    return wrong


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Ask every core a question through nginx.")
    parser.add_argument("--address", default="127.0.0.1:8080")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="how long to try")
    parser.add_argument("--token-file", type=Path)
    given = parser.parse_args(argv)
    token = given.token_file.read_text(encoding="utf-8").strip() if given.token_file else ""
    wrong = check(address=given.address, cores=given.cores, seconds=given.seconds, token=token)
    for name, reason in wrong.items():
        print(f"{name}: {reason}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
