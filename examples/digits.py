"""Train a network on the chip with scikit-learn's handwritten digits, and see what it has learnt.

    pip install --editable '.[torch]' scikit-learn
    python examples/digits.py [STEPS]

Prints the loss every few steps, and which share of digits that it has not seen it names rightly.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from trainlib.deploy import SGD, Deployed, deploy

BATCH, STEPS, SHOWN = 16, 60, 10
HELD_OUT = 320  # digits that only the evaluation sees

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def network() -> nn.Module:
    """Images of 8 x 8 in ten classes."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)),
    )


def batches() -> tuple[Batches, Batches]:
    """The digits in an order that a seed draws: those to learn from, and those held out."""
    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(images).float().reshape(-1, 1, 8, 8) / 16
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    split = (tensor[order].split(BATCH) for tensor in (x, torch.from_numpy(labels)))
    pairs = list(zip(*split, strict=True))
    whole = [pair for pair in pairs if len(pair[0]) == BATCH]
    held_out = HELD_OUT // BATCH
    return whole[held_out:], whole[:held_out]


def accuracy(deployed: Deployed, held_out: Batches) -> float:
    """Which share of digits the network names rightly, in evaluation mode, on the chip."""
    outputs = deployed.evaluate(held_out).outputs
    rights = [y.argmax(1) == t.numpy() for y, (_, t) in zip(outputs, held_out, strict=True)]
    return sum(right.sum() for right in rights) / (BATCH * len(held_out))


def main() -> None:
    """Train, step by step, and evaluate."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    learning, held_out = batches()
    model = network()
    optimizer = SGD(lr=0.05, momentum=0.9)
    deployed = deploy(model, loss=F.cross_entropy, batch=learning[0], optimizer=optimizer)

    def show(step: int, loss: float) -> None:
        if step % SHOWN == 0:
            print(f"step {step}: loss {loss:.4f}")

    trained = deployed.train((learning[n % len(learning)] for n in range(steps)), on_batch=show)
    cycles = trained.report.cycles // steps
    print(f"step {steps - 1}: loss {trained.losses[-1]:.4f}, {cycles:,} cycles a step")
    model.load_state_dict(trained.state_dict, strict=False)
    print(f"{100 * accuracy(deployed, held_out):.1f} % of {BATCH * len(held_out)} digits are right")


if __name__ == "__main__":
    main()
