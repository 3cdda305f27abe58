"""Networks that are deployed: MLPerf Tiny's, two of Deeploy's sizes, a transformer, two recurrent.

Sources: github.com/mlcommons/tiny, as in configs/networks; CCT-2: Hassani et al., "Escaping the big
data paradigm with compact transformers", 2021, with one embedding by position and token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Model:
    """A network and its batches.

    build      makes the module, its weights drawn by torch's generator
    shape      of an example
    classes    None: the target is as the input, the loss the mean squared error
    """

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int | None = None

    @property
    def loss(self) -> Any:
        """Its function."""
        return F.mse_loss if self.classes is None else F.cross_entropy

    def module(self, seed: int = 0) -> nn.Module:
        """One whose weights a seed draws."""
        torch.manual_seed(seed)
        return self.build()

    def batches(self, count: int, batch: int = 1, seed: int = 2) -> list[tuple[Any, Any]]:
        """Random batches that a seed draws."""
        torch.manual_seed(seed)
        xs = [torch.randn(batch, *self.shape) for _ in range(count)]
        return [(x, self._target(x)) for x in xs]

    def _target(self, x: Any) -> Any:
        if self.classes is None:
            return torch.randn_like(x)
        return torch.randint(0, self.classes, (len(x),))


def perceptron(*sizes: int) -> nn.Sequential:
    """Fully connected layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _normed(inputs: int, outputs: int, kernel: Any, **how: Any) -> list[nn.Module]:
    """Convolution, batch norm, ReLU."""
    convolution = nn.Conv2d(inputs, outputs, kernel, bias=False, **how)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


def _separable(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """Depthwise and pointwise; a stride pads at the bottom and at the right alone."""
    pads = [nn.ZeroPad2d((0, 1, 0, 1))] if stride > 1 else []
    how = {"stride": stride, "padding": int(stride == 1), "groups": inputs}
    return [*pads, *_normed(inputs, inputs, 3, **how), *_normed(inputs, outputs, 1)]


def dscnn(
    channels: int = 64, padding: tuple[int, int, int, int] = (1, 1, 4, 5), classes: int = 12
) -> Any:
    """DS-CNN: keyword spotting."""
    pads = [nn.ZeroPad2d(padding)] if any(padding) else []
    stem = [*pads, *_normed(1, channels, (10, 4), stride=2)]
    blocks = [layer for _ in range(4) for layer in _separable(channels, channels)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*stem, *blocks, *head)


class Residual(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(*_normed(inputs, outputs, 3, stride=stride, padding=1))
        self.second = nn.Sequential(*_normed(outputs, outputs, 3, padding=1)[:2])
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()
        )

    def forward(self, x: Any) -> Any:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet8() -> nn.Module:
    """ResNet8: image classification."""
    return nn.Sequential(
        *_normed(3, 16, 3, padding=1),
        *(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


def mobilenetv1() -> nn.Module:
    """MobileNetV1 with a width of 0.25: visual wake words."""
    sizes = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
    sizes += [(128, 128, 1)] * 5 + [(128, 256, 2), (256, 256, 1)]
    blocks = [layer for size in sizes for layer in _separable(*size)]
    stem = [nn.ZeroPad2d((0, 1, 0, 1)), *_normed(3, 8, 3, stride=2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2)]
    return nn.Sequential(*stem, *blocks, *head)


class Encoder(nn.Module):
    """Attention and two fully connected layers, each after a norm and with a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.second(F.gelu(self.first(self.norm2(x))))


class Cct2(nn.Module):
    """CCT-2: a convolutional tokenizer, two encoders, sequence pooling."""

    def __init__(self, classes: int = 10, width: int = 128, tokens: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(64, width, 3, padding=1, bias=False)
        self.position = nn.Parameter(0.2 * torch.randn(1, tokens, width))
        self.encoders = nn.Sequential(Encoder(width, 2), Encoder(width, 2))
        self.norm, self.pool = nn.LayerNorm(width), nn.Linear(width, 1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        for convolution in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(convolution(x)), 3, 2, 1)
        x = self.norm(self.encoders(x.flatten(2).transpose(1, 2) + self.position))
        weights = self.pool(x).softmax(1)
        return self.classifier((weights.transpose(1, 2) @ x).squeeze(1))


class Recurrent(nn.Module):
    """A classifier of sequences by the last step's state."""

    def __init__(self, kind: type[nn.Module], inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.cell = kind(inputs, hidden, batch_first=True)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.cell(x)[0][:, -1])


MODELS = {
    "AE-tiny": Model(lambda: perceptron(128, 64, 32, 64, 64, 32, 64, 128), (128,)),
    "Deep AE": Model(
        lambda: perceptron(640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640), (640,)
    ),
    "DSCNN-XS": Model(lambda: dscnn(16, (0, 0, 0, 0)), (1, 25, 10), 12),
    "DS-CNN": Model(dscnn, (1, 49, 10), 12),
    "ResNet8": Model(resnet8, (3, 32, 32), 10),
    "MobileNetV1": Model(mobilenetv1, (3, 96, 96), 2),
    "CCT-2": Model(Cct2, (3, 32, 32), 10),
    "LSTM": Model(lambda: Recurrent(nn.LSTM, 10, 32, 12), (16, 10), 12),
    "GRU": Model(lambda: Recurrent(nn.GRU, 10, 32, 12), (16, 10), 12),
}
