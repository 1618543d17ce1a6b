"""The exported file: its inputs and outputs, its parity with the original, its bytes, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from model_code.text_encoding import export_onnx
from model_code.text_encoding.parity import ParityError, compare

ROOT = Path(__file__).parents[3]


def tiny_model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torchlift_tiny", ROOT / "tests" / "model_code" / "tiny_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a pooler and two segments; longest sequence 40."""
    return Path(tiny_model().write_base(tmp_path_factory.mktemp("base") / "model", layers=1))


@pytest.fixture(scope="module")
def exported(base: Path) -> Path:
    """The output folder of one export with all outputs."""
    output = base.parent / "exported"
    assert export_onnx.main(
        ["--model", str(base), "--output", str(output), "--outputs", ",".join(export_onnx.OUTPUTS)]
    ) == 0  # fmt: skip
    return output


def test_the_report_tells_inputs_outputs_and_parity(exported: Path) -> None:
    report = json.loads((exported / "export.json").read_text())
    assert report["inputs"] == {
        name: {"dtype": "int32", "dims": [-1, -1]} for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    assert report["outputs"] == {
        "last_hidden_state": {"dtype": "float32", "dims": [-1, -1, 32]},
        "pooler_output": {"dtype": "float32", "dims": [-1, 32]},
        "sentence_embedding": {"dtype": "float32", "dims": [-1, 32]},
    }
    assert report["max_sequence"] == 40
    cases = report["parity"]
    assert len({(case["batch"], case["sequence"]) for case in cases}) == 5
    assert all(0 <= value <= 1e-4 for case in cases for value in case["difference"].values())
    assert sorted(path.name for path in exported.iterdir()) == ["export.json", "model.onnx"]


def test_the_file_answers_as_the_original(base: Path, exported: Path) -> None:
    """Independent of the export's own check: the original through transformers alone, at a shape of our own."""
    import onnxruntime
    import torch
    from transformers import AutoModel

    session = onnxruntime.InferenceSession(str(exported / "model.onnx"), providers=["CPUExecutionProvider"])
    tokens = np.random.default_rng(5).integers(0, 30, (7, 11), dtype=np.int32)
    mask = (np.arange(11) < np.arange(5, 12)[:, None]).astype(np.int32)
    hidden, pooled, mean = session.run(
        list(export_onnx.OUTPUTS),
        {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)},
    )
    with torch.no_grad():
        wanted = AutoModel.from_pretrained(base).eval()(
            input_ids=torch.from_numpy(tokens).long(), attention_mask=torch.from_numpy(mask).long()
        )
    assert np.abs(hidden - wanted.last_hidden_state.numpy()).max() < 1e-4
    assert np.abs(pooled - wanted.pooler_output.numpy()).max() < 1e-4
    by_hand = np.stack([row[: mask[i].sum()].mean(0) for i, row in enumerate(hidden)])
    assert np.abs(mean - by_hand).max() < 1e-5


def test_the_same_model_gives_the_same_bytes_in_another_folder(exported: Path, tmp_path: Path) -> None:
    """Paths and stack traces of the machine are not in the file."""
    moved = shutil.copytree(exported.parent / "model", tmp_path / "elsewhere")
    export_onnx.export(moved, tmp_path / "out", outputs=export_onnx.OUTPUTS)
    written = (tmp_path / "out" / "model.onnx").read_bytes()
    assert written == (exported / "model.onnx").read_bytes()
    assert str(ROOT).encode() not in written and str(tmp_path).encode() not in written


def test_a_file_of_other_weights_is_no_parity(exported: Path) -> None:
    def other(feeds: Any) -> dict[str, Any]:
        batch, sequence = feeds["input_ids"].shape
        return {"last_hidden_state": np.zeros((batch, sequence, 32), np.float32)}

    with pytest.raises(ParityError, match=r"last_hidden_state at 1 x 1 is .* from the original, more than 1.0e-04"):
        compare(
            other, exported / "model.onnx", inputs=("input_ids", "attention_mask", "token_type_ids"),
            outputs=("last_hidden_state",), vocabulary=30, longest=40, tolerance=1e-4,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--outputs", "pooled"], "--outputs: no output 'pooled'; there are last_hidden_state, pooler_output,"),
        (["--outputs", "pooler_output,pooler_output"], "names an output twice"),
        (["--tolerance", "0"], "from the original, more than 0.0e+00"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert export_onnx.main(["--model", str(base), "--output", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("export_onnx: ") and sentence in error
    assert not list((tmp_path / "out").glob("*"))


def test_a_folder_without_a_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export_onnx.main(["--model", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert f"{tmp_path / 'config.json'} is missing" in capsys.readouterr().err
