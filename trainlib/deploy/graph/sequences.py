"""Operators of sequences: recurrent layers, attention, tables of rows; and losses, optimisers."""

from collections.abc import Callable
from math import prod

import numpy as np

from trainlib.deploy.graph.maps import element_wise, shaped_as
from trainlib.deploy.graph.operator import Backward, Invocation, Operator, Rule, Shapes
from trainlib.deploy.graph.values import Attributes

CELLS = {  # states, and what the forward pass saves beside Y
    "rnn": (("h0",), ()),
    "lstm": (("h0", "c0"), ("C", "gates")),
    "gru": (("h0",), ("gates", "N")),
}
WEIGHTS = ("Wx", "Wh", "bias_x", "bias_h")
DEFAULT_IGNORED = -100
"""The target that PyTorch's losses of classes ignore by default."""
LEAST_LOG = -100.0
"""Of a probability in a binary cross-entropy."""


def _cell(name: str, step: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        steps, batch, inputs = shapes["X"]
        sizes = {"steps": steps, "batch": batch, "inputs": inputs, "hidden": shapes["Wh"][1]}
        return Invocation(f"{name}_{step}", {**sizes, **attributes})

    return lower


def _cell_rule(name: str) -> Callable[[Backward], None]:
    states, saved = CELLS[name]

    def rule(b: Backward) -> None:
        given = {n: b.value(n) for n in ("X", "Wx", "Wh", *states, "Y", *saved)}
        given["dY"] = b.gradient("Y")
        zeros = b.constant("zeros", np.zeros(b.shape("h0"), np.float32))
        given["dhn"] = zeros
        if name == "lstm":
            given["dcn"] = _last_step(b, "C") if b.has("C") else zeros
        found = b.emit(f"{name}_bw", given, b.attributes())
        for operand in ("X", *WEIGHTS, *states):
            if b.needs(operand):
                b.give(operand, found[f"d{operand}"])

    return rule


def _last_step(b: Backward, output: str) -> str:
    """The part of a gradient that is of the last step: what is before it is 0, or refused."""
    return b.last(b.gradient(output), b.shape("h0"))


def _cells(name: str) -> list[Operator]:
    return [
        Operator(f"{name}_fw", _cell(name, "fw"), rule=_cell_rule(name)),
        Operator(f"{name}_bw", _cell(name, "bw")),
    ]


def _attention(step: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        batch, length, embed = shapes["X"]
        return Invocation(
            f"mhsa_{step}", {"batch": batch, "length": length, "embed": embed, **attributes}
        )

    return lower


def _attention_rule(b: Backward) -> None:
    given = {n: b.value(n) for n in ("X", "W", "Wo", "QKV", "P", "O")}
    found = b.emit("mhsa_bw", {**given, "dY": b.gradient("Y")}, b.attributes())
    for operand in ("X", "W", "bias", "Wo", "bias_o"):
        if b.needs(operand):
            b.give(operand, found[f"d{operand}"])


def _table(shapes: Shapes, _: Attributes) -> Invocation:
    entries, columns = shapes["table"]
    tokens = prod(shapes["index"])
    return Invocation("embedding_fw", {"entries": entries, "columns": columns, "tokens": tokens})


def _table_shapes(shapes: Shapes, _: Attributes) -> Shapes:
    return {"y": (*shapes["index"], shapes["table"][1])}


def _table_rule(b: Backward) -> None:
    entries, columns = b.shape("table")
    dy = b.reshaped(b.gradient("y"), (prod(b.shape("index")), columns))
    given = {"index": b.value("index"), "dy": dy}
    gradient = b.emit("put", given, {"entries": entries})["dtable"]
    if "frozen" in b.attributes():
        learns = np.arange(entries).reshape(-1, 1) != b.attributes()["frozen"]
        factor = b.constant("learns", learns.astype(np.float32))
        gradient = b.emit("multiply", {"a": gradient, "b": factor})["y"]
    b.give("table", gradient)


def _put_rule(b: Backward) -> None:
    """Each row that has been added has the gradient of where it came to lie."""
    b.give("dy", b.emit("take", {"table": b.gradient("dtable"), "index": b.value("index")})["y"])


def _table_gradient(shapes: Shapes, attributes: Attributes) -> Invocation:
    tokens, columns = shapes["dy"]
    return Invocation("embedding_bw", {"columns": columns, "tokens": tokens, **attributes})


def _loss(of_target: Callable[[Backward], str]) -> Rule:
    """The rule of a loss whose kernel gives dx, too.

    of_target    emits the gradient of a target that is computed, of a loss whose own is 1
    """

    def rule(b: Backward) -> None:
        def give(operand: str, gradient: str | None) -> None:
            if not b.is_one("loss"):
                gradient = b.emit("multiply", {"a": gradient, "b": b.gradient("loss")})["y"]
            assert gradient
            b.give(operand, gradient)

        if b.needs("x"):
            give("x", b.value("dx"))
        if b.needs("t"):
            give("t", of_target(b))

    return rule


def _share(b: Backward, count: int) -> float:
    """What one of so many adds to a loss."""
    return 1 / count if b.attributes().get("reduction", "mean") == "mean" else 1.0


def _times(b: Backward, name: str | None, factor: float) -> str:
    return b.emit("multiply", {"a": name, "b": b.constant("share", [factor])})["y"]


def _of_difference(b: Backward) -> str:
    """Of x - t: -dx."""
    return b.emit("neg", {"x": b.value("dx")})["y"]


def _of_logits(b: Backward) -> str:
    """Of softplus(x) - t x: -x, by its share."""
    return _times(b, b.value("x"), -_share(b, prod(b.shape("x"))))


def _of_probabilities(b: Backward) -> str:
    """Of -t log(x) - (1 - t) log(1 - x), whose logarithms are not below -100."""
    x = b.value("x")
    rest = b.emit("subtract", {"a": b.constant("one", [1.0]), "b": x})["y"]
    logs = (b.emit("log", {"x": name})["y"] for name in (rest, x))
    of_rest, of_x = (b.emit("clamp_fw", {"x": log}, {"low": LEAST_LOG})["y"] for log in logs)
    return _times(
        b, b.emit("subtract", {"a": of_rest, "b": of_x})["y"], _share(b, prod(b.shape("x")))
    )


def _of_classes(b: Backward) -> str:
    """Of -t log(softmax(x)) in each row."""
    x, rows = b.value("x"), b.shape("x")[0]
    most = b.reshaped(b.emit("shift", {"x": x}, {"axes": (1,)})["y"], (rows, 1))
    away = b.emit("subtract", {"a": x, "b": most})["y"]
    powers = b.emit("exp", {"x": away})["y"]
    total = b.emit("reduce", {"x": powers}, {"axes": (1,), "what": "sum"})["y"]
    log = b.reshaped(b.emit("log", {"x": total})["y"], (rows, 1))
    return _times(b, b.emit("subtract", {"a": log, "b": away})["y"], _share(b, rows))


def _cross_entropy(shapes: Shapes, attributes: Attributes) -> Invocation:
    rows, classes = shapes["x"]
    return Invocation("cross_entropy_loss", {"b": rows, "classes": classes, **attributes})


OF_ELEMENTS = {  # how their targets learn, where those are computed
    **dict.fromkeys(("mse_loss", "l1_loss", "berhu_loss", "huber_loss"), _of_difference),
    "bce_logits_loss": _of_logits,
    "bce_loss": _of_probabilities,
}


def _losses() -> list[Operator]:
    like = shaped_as(dx="x")
    rules = {name: _loss(of_target) for name, of_target in OF_ELEMENTS.items()}
    of_elements = [Operator(n, element_wise(n, "x"), like, rule) for n, rule in rules.items()]
    classes = Operator("cross_entropy_loss", _cross_entropy, rule=_loss(_of_classes))
    return [classes, *of_elements]


def _changed_scale(_: Shapes, attributes: Attributes) -> Invocation:
    return Invocation("change_scale", dict(attributes))


def _cast(shapes: Shapes, attributes: Attributes) -> Invocation:
    """From the type `source` to the node's own."""
    return Invocation(f"cast_{attributes['source']}", {"shape": shapes["X"]})


def _corrections(_: Shapes, attributes: Attributes) -> Invocation:
    return Invocation("adam_corrections", dict(attributes))


OPERATORS = (
    *(operator for name in CELLS for operator in _cells(name)),
    Operator("mhsa_fw", _attention("fw"), rule=_attention_rule),
    Operator("mhsa_bw", _attention("bw")),
    Operator("take", _table, _table_shapes, _table_rule),
    Operator("put", _table_gradient, rule=_put_rule),
    Operator("replace_label", element_wise("replace_label", "x"), shaped_as(y="x")),
    Operator("as_floats", element_wise("as_floats", "x"), shaped_as(y="x")),
    *_losses(),
    *(Operator(name, element_wise(name, "w")) for name in ("sgd", "sgd_momentum", "adam", "adamw")),
    Operator("accumulate", element_wise("accumulate", "g")),
    Operator("adam_corrections", _corrections),
    Operator("change_scale", _changed_scale),
    Operator("cast", _cast),
)
