"""Deployment: a network from PyTorch or ONNX, trained on the chip by one program.

from trainlib.deploy import SGD, deploy
"""

from trainlib.deploy.deployment import Deployed, deploy
from trainlib.deploy.graph.values import DeployError, Graph
from trainlib.deploy.optimizers import SGD, Adam, AdamW
from trainlib.deploy.precision import LossScale
from trainlib.deploy.results import Evaluated, Trained

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "DeployError",
    "Deployed",
    "Evaluated",
    "Graph",
    "LossScale",
    "Trained",
    "deploy",
]
