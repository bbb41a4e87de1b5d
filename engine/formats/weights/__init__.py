"""Trained networks in the files of other tools: npz, safetensors, PyTorch state dicts, ONNX."""

from dimsweep.engine.formats.weights.files import Samples, read_network, read_samples, write_network
