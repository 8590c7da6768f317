"""Export a learned policy for programs that are not Python: as ONNX, as a C header."""
