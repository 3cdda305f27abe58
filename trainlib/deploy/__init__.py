"""Deployment: a network from PyTorch or ONNX, trained on the chip by one program."""
