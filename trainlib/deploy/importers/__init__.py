"""Networks as graphs: of PyTorch by torch.export, of ONNX."""
