"""Text encoding: an encoder as ONNX, built into a TensorRT engine, served by Triton on a multi-model endpoint.

1. `export_onnx`   model folder → model.onnx, export.json (parity with the original, over several shapes)
2. `build_engine`  model.onnx → model.plan, engine.json, build.log; on a GPU of the endpoint's type
   `sweep`         the same in several precisions, measured and compared: report.md, report.json, report.png
3. `repository`    model.plan → one archive a model, checked before upload
4. `client`        texts or arrays → answers of one model of the endpoint

`engine`, `model_config`, `repository` and `client` import nothing heavier than numpy, protobuf and tritonclient.

Tests run 1, 3 and 4 whole, against a real Triton on the CPU, where `cpu_model` answers by ONNX Runtime in the engine's
place. Only a GPU shows: that trtexec and ModelOpt accept the commands of `trtexec.py` (taken from their documentation
and sources), that TensorRT loads the engine, how far its fp16 and int8 answers are from the original, any speed, and
what Triton does when GPU memory runs out.
"""
