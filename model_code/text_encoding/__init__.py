"""Text encoding: an encoder as ONNX, built into a TensorRT engine, served by Triton on a multi-model endpoint."""
