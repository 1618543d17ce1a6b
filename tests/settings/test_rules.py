"""Each rule: what is told about a mistake: the key, what was given, why it cannot work, what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings import Problem, SettingsError, load_settings
from tests.settings.mistakes import CANARY, ENDPOINT, LINEAR, MISTAKES, SKIP, VERSION, VPC, challenger
from tests.settings.question_answering_mistakes import ACCOUNT, CERTIFICATE, SECRET, asked
from tests.settings.text_encoding_mistakes import ENCODER
from tests.stacks.synthesis import edited


def problems(changes: dict[str, object], folder: Path) -> tuple[Problem, ...]:
    """What is told about dev.toml with these changes."""
    with pytest.raises(SettingsError) as caught:
        load_settings(str(edited("dev", changes, folder)))
    return caught.value.problems


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake: str, tmp_path: Path) -> None:
    changes, key, reason, right = MISTAKES[mistake]
    found = [problem for problem in problems(changes, tmp_path) if problem.key == key]
    assert len(found) == 1, f"one sentence about {key}"
    (problem,) = found
    assert reason in problem.reason
    assert right in problem.right
    assert problem.right, "always say what would be right"
    text = str(problem)
    assert text.startswith(f"{key}: given ")
    assert len(text) < 600


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_one_problem(mistake: str, tmp_path: Path) -> None:
    """A mistake must not bring others with it, which would hide it."""
    changes, key, _, _ = MISTAKES[mistake]
    assert {problem.key for problem in problems(changes, tmp_path)} == {key}


def test_all_at_once(tmp_path: Path) -> None:
    changes = {
        "deployment.region": "us-west-3",
        "logs.retention_days": 10,
        "training.epochs": 0,
        "training.unknown": 1,
        f"{ENDPOINT}.workers": 0,
    }
    assert {problem.key for problem in problems(changes, tmp_path)} == set(changes)


def test_name_must_be_the_files(tmp_path: Path) -> None:
    (tmp_path / "deployments").mkdir()
    edited("dev", {"deployment.name": "test"}, tmp_path / "deployments")
    with pytest.raises(SettingsError) as caught:
        load_settings("dev", root=tmp_path)
    (problem,) = caught.value.problems
    assert (problem.key, problem.given, problem.right) == ("deployment.name", "test", "dev")


def test_long_endpoint_name(tmp_path: Path) -> None:
    from settings.names import ENDPOINT_NAME_LENGTH, endpoint_name

    longest = max(
        len(endpoint_name("x" * 20, "sentiment", name, challengers={"next": name}))
        for name in ("ml.c6gd.16xlarge", "ml.r7gd.16xlarge")
    )
    assert longest <= ENDPOINT_NAME_LENGTH, "the rule is for names to come"


@pytest.mark.parametrize("name", ["dev", "prod", "trial"])
def test_what_ships_is_valid(name: str) -> None:
    assert load_settings(name).deployment.name == name


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings("dev").deployment.region = "us-east-1"


@pytest.mark.parametrize(
    "changes",
    [
        SKIP | {"training.base_model": None, "training.data": None},
        {"network.existing_vpc": VPC},
        {"training.mode": "skip", "sentiment.version": VERSION},
        {"sentiment.version": VERSION},
        CANARY,
        LINEAR,
        CANARY | challenger(min_instances=2, initial_instances=2, max_instances=2),
        challenger(instance_type="ml.c6gd.4xlarge") | {f"{ENDPOINT}.kms": False},
        {f"{ENDPOINT}.data_capture": {"sampling_percent": 100, "keep_days": 30}},
        {"text_encoding": None},
        {"text_encoding.models": ["news", "chat_2"], "text_encoding.triton_release": "25.04"},
        {
            "text_encoding.mode": "single-model",
            "text_encoding.models": 1,
            f"{ENCODER}.high_resolution_concurrency": 8.0,
        },
        {"text_encoding.precision": "int8", "text_encoding.calibration_texts": "s3://bucket/texts/"},
        asked(),
        asked(num_cores=2, null_threshold="none", compiler_args="--auto-cast 'none'", zones=["us-west-2a"]),
        asked(null_threshold=-1, dtype="bfloat16", num_models_per_server=2),
        asked(certificate_arn=CERTIFICATE.format(region="us-west-2", account=ACCOUNT), token_secret_arn=SECRET),
    ],
)
def test_right_ones(changes: dict[str, object], tmp_path: Path) -> None:
    assert load_settings(str(edited("dev", changes, tmp_path))).deployment.name == "dev"
