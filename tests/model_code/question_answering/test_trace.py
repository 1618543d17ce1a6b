"""trace.py: whole or absent, the same as the eager model, and what it refuses."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from model_code.question_answering import manifest as manifests
from model_code.question_answering import trace
from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.manifest import ManifestError
from model_code.question_answering.windows import Window
from model_code.shapes import ShapeError
from tests.model_code.question_answering.tiny_qa import trace_arguments, write_model


def test_every_shape_computes_what_the_eager_model_does(compiled: CompiledModel, qa_model: Path) -> None:
    eager = AutoModelForQuestionAnswering.from_pretrained(qa_model).eval()
    chance = np.random.default_rng(3)
    for batch, length in compiled.shapes:
        windows = []
        for row in range(batch):
            size = int(length - chance.integers(0, length // 4)) if row else length
            types = [int(place > size // 3) for place in range(size)]
            windows.append(Window(chance.integers(5, 90, size).tolist(), types, 0, []))
        for window, (start, end) in zip(windows, compiled.run(windows), strict=True):
            with torch.inference_mode():
                wanted = eager(
                    input_ids=torch.tensor([window.ids]), token_type_ids=torch.tensor([window.types]),
                    attention_mask=torch.ones(1, window.length, dtype=torch.int64),
                )  # fmt: skip
            np.testing.assert_allclose(start, wanted.start_logits[0], atol=1e-4)
            np.testing.assert_allclose(end, wanted.end_logits[0], atol=1e-4)


def test_manifest_says_what_was_made(traced: Path, qa_model: Path) -> None:
    manifest = manifests.read(traced)
    assert manifest.static_shapes.batch_sizes == (1, 4, 8)
    assert manifest.static_shapes.lengths == (32, 64, 128)
    assert manifest.inputs == ["input_ids", "attention_mask", "token_type_ids"]
    assert manifest.versions["torch"] == torch.__version__
    assert manifest.source == qa_model.name
    assert all(shape.max_abs_difference is not None and shape.max_abs_difference < 1e-4 for shape in manifest.shapes)


def test_token_types_change_the_answer(compiled: CompiledModel) -> None:
    """The segments reach the model: without them a question is read as context."""
    ids = list(range(5, 45))
    (with_types, _), (without, _) = compiled.run(
        [Window(ids, [0] * 20 + [1] * 20, 0, []), Window(ids, [0] * 40, 0, [])]
    )
    assert np.abs(with_types - without).max() > 1e-2


@pytest.mark.parametrize(
    ("rows", "length", "said"),
    [(9, 10, "9 rows fit no compiled shape"), (1, 129, "129 tokens fit no compiled shape")],
)
def test_what_fits_no_shape_is_refused(compiled: CompiledModel, rows: int, length: int, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        compiled.run([Window([5] * length, [0] * length, 0, [])] * rows)


@pytest.mark.parametrize("shape", [(2, 32), (1, 33), (16, 32), (1, 1)])
def test_only_compiled_shapes_run(compiled: CompiledModel, shape: tuple[int, int]) -> None:
    with pytest.raises(ShapeError, match="is not compiled"):
        compiled.run_arrays((np.ones(shape, np.int64),) * 3)


def test_a_model_that_differs_is_refused(qa_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = trace_arguments(qa_model, tmp_path / "out", "--dtype", "bfloat16", "--tolerance", "1e-6")
    assert trace.main(arguments) == 2
    assert "a logit differs by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_is_within_its_tolerance(qa_model: Path, tmp_path: Path) -> None:
    assert trace.main(trace_arguments(qa_model, tmp_path / "out", "--dtype", "bfloat16")) == 0
    assert 0 < max(shape.max_abs_difference or 0 for shape in manifests.read(tmp_path / "out").shapes) < 0.5


def test_not_a_number_is_a_difference(traced: Path) -> None:
    loaded = CompiledModel(traced)
    loaded._run = {shape: lambda *inputs: (torch.full(inputs[0].shape, torch.nan),) * 2 for shape in loaded.shapes}
    assert np.isnan(loaded.difference(batch=1, length=32))


def test_a_failure_leaves_nothing(qa_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.jit, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        trace.main(trace_arguments(qa_model, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    try:
        assert trace.main(arguments) == 2
    except SystemExit as stopped:
        assert stopped.code == 2
    error: str = capsys.readouterr().err
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (("--target", "inf1"), "inf1 is no longer supported by the Neuron SDK"),
        (("--target", "inf3"), "there is inf2"),
        (("--batch-sizes", "0,4"), "rising whole numbers from 1"),
        (("--lengths", "32,x"), "expected whole numbers"),
        (("--lengths", "512"), "has positions for 128 tokens; --lengths asks 512"),
        (("--lengths", "8"), "must be at least 12"),
        (("--compiler-args", "--auto-cast all"), "takes no compiler arguments"),
        (("--backend", "neuronx"), "or choose --backend cpu"),
        (("--model", "hf://someone/model@main"), "give a commit id"),
        (("--model", "/nowhere"), "no config.json there"),
    ],
)
def test_mistakes(qa_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: Any, said: str) -> None:
    error = refused(capsys, [*trace_arguments(qa_model, tmp_path / "out"), *extra])
    assert said in " ".join(error.split())
    assert not (tmp_path / "out").exists()


def test_a_model_without_its_head_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the answers would come from random weights."""
    model = write_model(tmp_path / "model", head=False)
    assert "no question-answering model" in refused(capsys, trace_arguments(model, tmp_path / "out"))


def test_an_existing_output_is_left_alone(qa_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "exists" in refused(capsys, trace_arguments(qa_model, tmp_path))


def test_the_neuron_compiler_is_called_for_inf2_without_a_device(
    qa_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is passed to it; nothing here shows that it compiles."""
    calls = []

    def compiler(module: Any, example: Any, *, compiler_args: list[str], cpu_backend: bool) -> Any:
        calls.append((example[0].shape, compiler_args, cpu_backend))
        return torch.jit.trace(module, example)  # type: ignore[no-untyped-call]

    monkeypatch.setitem(sys.modules, "torch_neuronx", types.SimpleNamespace(trace=compiler))
    arguments = [*trace_arguments(qa_model, tmp_path / "out"), "--backend", "neuronx", "--batch-sizes", "1,4"]
    assert trace.main([*arguments, "--lengths", "32,64", "--compiler-args=--auto-cast all"]) == 0
    wanted = ["--target", "inf2", "--auto-cast", "all"]
    assert calls == [((b, s), wanted, True) for s in (32, 64) for b in (1, 4)]
    document = json.loads((tmp_path / "out" / "model.json").read_text())
    assert {shape["file"] for shape in document["shapes"]} == {
        "model-1x32.pt", "model-4x32.pt", "model-1x64.pt", "model-4x64.pt"
    }  # fmt: skip
    assert document["compiler_args"] == wanted
    assert {shape["max_abs_difference"] for shape in document["shapes"]} == {None}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "this code reads"),
        ({"tokenizer_files": ["missing.json"]}, "'missing.json', which model.json names, is missing"),
        ({"surprise": 1}, "not as trace.py writes it"),
        ({"shapes": []}, "batch sizes"),
    ],
)
def test_damaged_manifests(traced: Path, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    for file in traced.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    document = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(document | change))
    with pytest.raises(ManifestError, match=said):
        CompiledModel(tmp_path)
