"""bfloat16 weights and the warm-up."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from model_code.sentiment import inference, precision
from model_code.sentiment.classifier import Classifier

ARM = "processor\t: 0\nFeatures\t: fp asimd evtstrm sve i8mm bf16 dgh rng\n"
X86 = "flags\t\t: fpu vme avx512f avx512_bf16 amx_tile\n"


@pytest.mark.parametrize(
    ("cpuinfo", "able"),
    [
        (ARM, True),
        (X86, True),
        ("flags\t\t: fpu amx_bf16\n", True),
        (ARM.replace("bf16", "bf8"), False),
        ("model name\t: a bf16 processor\nflags\t\t: fpu avx512f\n", False),
        ("", False),
    ],
)
def test_the_processor_is_asked(cpuinfo: str, able: bool) -> None:
    assert precision.supported(cpuinfo) is able


@pytest.mark.parametrize(
    ("given", "cpuinfo", "dtype", "line"),
    [
        ("true", ARM, torch.bfloat16, "weights in bfloat16 (TORCHLIFT_BF16 is true)"),
        ("true", "", torch.float32, "weights in float32 (this processor has no bfloat16)"),
        ("false", ARM, torch.float32, "weights in float32 (TORCHLIFT_BF16 is not true)"),
    ],
)
def test_the_weights_are_what_was_asked_for_and_the_log_says_it(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    given: str, cpuinfo: str, dtype: torch.dtype, line: str,
) -> None:  # fmt: skip
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setenv(precision.VARIABLE, given)
    with caplog.at_level(logging.INFO):
        model = inference.model_fn(str(trained))
    assert {parameter.dtype for parameter in model.model.parameters()} == {dtype}
    assert f"{line}, {torch.get_num_threads()} threads" in caplog.text
    [row] = model.scores(["a good film"])
    assert sum(row) == pytest.approx(1, abs=1e-5), "scores are float32 in any case"


def test_another_value_is_refused(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(precision.VARIABLE, "yes")
    with pytest.raises(ValueError, match="TORCHLIFT_BF16 is 'yes'; right would be 'true' or 'false'"):
        inference.model_fn(str(trained))


def test_the_warm_up_ends_in_time_but_never_without_an_answer(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Classifier(trained)
    judged: list[int] = []
    monkeypatch.setattr(model, "scores", lambda texts: judged.append(len(texts)))
    precision.warm_up(model)
    assert judged == [texts for _, texts in precision.SHAPES]
    judged.clear()
    precision.warm_up(model, seconds=-1)
    assert judged == [1]
