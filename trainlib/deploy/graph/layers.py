"""Operators of layers: convolutions, fully connected layers, products, norms, pools."""

from collections.abc import Callable
from math import prod
from typing import Any

from trainlib.deploy.graph.maps import clipped_gradient, shaped_as
from trainlib.deploy.graph.operator import Backward, Invocation, Operator, Shapes
from trainlib.deploy.graph.values import Attributes, Shape


def _convolution(step: str) -> Callable[[Shapes, Attributes], Invocation]:
    """The kernel for it: of each channel by itself, of places by themselves, or any."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        how = dict(attributes)
        groups, kernel = how.pop("groups", 1), how.pop("kernel", None)
        batch, inputs, height, width = (
            (*shapes["dY"][:1], *how.pop("input")) if step == "ig" else shapes["X"]
        )
        if step == "wg":
            outputs = shapes["dY"][1]
        else:
            outputs, kernel = shapes["W"][0], shapes["W"][2:]
        bias = {"bias": True} if "bias" in shapes else {}
        how = {"height": height, "width": width, "batch": batch, **bias, **how}
        if groups == inputs and groups > 1:
            how |= {"kernel": kernel, "inputs": inputs, "multiplier": outputs // groups}
            return Invocation(f"dwconv2d_{step}", how)
        how |= {"inputs": inputs, "outputs": outputs}
        slides = {name: how.get(name) for name in ("stride", "padding", "dilation")}
        is_plain = slides["stride"] in (None, (1, 1)) and not any(slides["padding"] or (0,))
        if is_plain and groups == 1 and tuple(kernel) == (1, 1) and "method" not in how:
            for name in slides:
                how.pop(name, None)
            return Invocation(f"pwconv2d_{step}", how)
        return Invocation(f"conv2d_{step}", how | {"kernel": kernel, "groups": groups})

    return lower


def _convolution_rule(b: Backward) -> None:
    dy, how = b.gradient("Y"), b.attributes()
    if b.needs("W"):
        bias = {"bias": True} if b.needs("bias") else {}
        about = how | {"kernel": tuple(b.shape("W")[2:])} | bias
        found = b.emit("conv2d_wg", {"dY": dy, "X": b.value("X")}, about)
        b.give("W", b.reshaped(found["dW"], b.shape("W")))
        if bias:
            b.give("bias", found["dbias"])
    elif b.needs("bias"):
        b.give("bias", b.emit("reduce", {"x": dy}, {"axes": (0, 2, 3), "what": "sum"})["y"])
    if b.needs("X"):
        about = how | {"input": tuple(b.shape("X")[1:])}
        b.give("X", b.emit("conv2d_ig", {"dY": dy, "W": b.value("W")}, about)["dX"])


def _transposed_rule(b: Backward) -> None:
    """Of the gradient of an input as a layer: a convolution the other way round."""
    dy = b.gradient("dX")
    how = {n: v for n, v in b.attributes().items() if n != "input"}
    if b.needs("W"):
        about = how | {"kernel": tuple(b.shape("W")[2:])}
        found = b.emit("conv2d_wg", {"dY": b.value("dY"), "X": dy}, about)
        b.give("W", b.reshaped(found["dW"], b.shape("W")))
    if b.needs("dY"):
        b.give("dY", b.emit("conv2d_fw", {"X": dy, "W": b.value("W")}, how)["Y"])


def _linear(step: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        rows = shapes["X"] if "X" in shapes else shapes["dY"]
        inputs = shapes["W"][1] if "W" in shapes else shapes["X"][-1]
        outputs = shapes["W"][0] if "W" in shapes else shapes["dY"][-1]
        bias = {"bias": True} if "bias" in shapes else {}
        sizes = {"batch": prod(rows[:-1]), "inputs": inputs, "outputs": outputs}
        return Invocation(f"linear_{step}", {**sizes, **bias, **attributes})

    return lower


def _linear_shapes(shapes: Shapes, _: Attributes) -> Shapes:
    return {"Y": (*shapes["X"][:-1], shapes["W"][0])}


def _linear_rule(b: Backward) -> None:
    dy = clipped_gradient(b, "Y")
    if b.needs("W"):
        bias = {"bias": True} if b.needs("bias") else {}
        found = b.emit("linear_wg", {"dY": dy, "X": b.value("X")}, bias)
        b.give("W", found["dW"])
        if bias:
            b.give("bias", found["dbias"])
    elif b.needs("bias"):
        axes = tuple(range(len(b.shape("Y")) - 1))
        b.give("bias", b.emit("reduce", {"x": dy}, {"axes": axes, "what": "sum"})["y"])
    if b.needs("X"):
        found = b.emit("linear_ig", {"dY": dy, "W": b.value("W")})
        b.give("X", b.reshaped(found["dX"], b.shape("X")))


def _sizes(shapes: Shapes, how: Attributes) -> tuple[int, int, int, int]:
    """Products, rows, terms and columns."""
    a, b = shapes["A"], shapes["B"]
    n, k = (a[-1], a[-2]) if how.get("trans_a") else (a[-2], a[-1])
    terms, m = (b[-1], b[-2]) if how.get("trans_b") else (b[-2], b[-1])
    if k != terms or a[:-2] != b[:-2]:
        raise ValueError(f"A {list(a)} and B {list(b)} do not fit each other")
    return prod(a[:-2]), n, k, m


def _product(shapes: Shapes, how: Attributes) -> Invocation:
    count, n, k, m = _sizes(shapes, how)
    sizes = {"n": n, "k": k, "m": m, **how}
    if count == 1:
        return Invocation("matmul", sizes)
    return Invocation("matmul_batched", {"batch": count, **sizes})


def _product_shapes(shapes: Shapes, how: Attributes) -> Shapes:
    _, n, _, m = _sizes(shapes, how)
    return {"A": shapes["A"], "B": shapes["B"], "C": (*shapes["A"][:-2], n, m)}


def _product_rule(b: Backward) -> None:
    how, dc = b.attributes(), b.gradient("C")
    left, right = bool(how.get("trans_a")), bool(how.get("trans_b"))
    first, second = b.value("A"), b.value("B")
    if b.needs("A"):
        given = (dc, second, False, not right) if not left else (second, dc, right, True)
        b.give("A", _matmul(b, *given))
    if b.needs("B"):
        given = (first, dc, not left, False) if not right else (dc, first, True, left)
        b.give("B", _matmul(b, *given))


def _matmul(b: Backward, left: str | None, right: str | None, *turned: bool) -> str:
    how = {name: True for name, is_it in zip(("trans_a", "trans_b"), turned, strict=True) if is_it}
    return b.emit("matmul", {"A": left, "B": right}, how)["C"]


NORMS = ("batchnorm", "batchnorm_frozen", "instancenorm", "groupnorm", "layernorm", "rmsnorm")
OF_ROWS = ("layernorm", "rmsnorm")


def _norm(name: str, step: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        shape = shapes["x"]
        if name in OF_ROWS:
            columns = prod(shapes["gamma"])
            sizes = {"rows": prod(shape) // columns, "columns": columns}
        else:
            sizes = {"b": shape[0], "c": shape[1], "hw": prod(shape[2:])}
        return Invocation(f"{name}_{step}", {**sizes, **attributes})

    return lower


def _norm_rule(name: str) -> Callable[[Backward], None]:
    stats = {"batchnorm_frozen": ("running_mean", "running_var"), "rmsnorm": ("rstd",)}
    names = stats.get(name, ("mean", "rstd"))

    def rule(b: Backward) -> None:
        relu = ("y",) if b.attributes().get("relu") else ()
        given = {n: b.value(n) for n in ("x", "gamma", *relu, *names)}
        how = {n: v for n, v in b.attributes().items() if n != "momentum"}
        found = b.emit(f"{name}_bw", {**given, "dy": b.gradient("y")}, how)
        for operand in ("x", "gamma", "beta"):
            if b.needs(operand):
                b.give(operand, found[f"d{operand}"])

    return rule


def _norms(name: str) -> list[Operator]:
    forward, backward, again = (f"{name}_{step}" for step in ("fw", "bw", "apply"))
    applied = [Operator(again, _norm(name, "apply"), shaped_as(y="x"))]
    return [
        *(applied if name != "batchnorm_frozen" else ()),
        Operator(forward, _norm(name, "fw"), shaped_as(y="x"), _norm_rule(name)),
        Operator(
            *(backward, _norm(name, "bw"), shaped_as(dx="x")),
            in_place=(("dy", "dx"), ("x", "dx")),
        ),
    ]


def _pool(kernel: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        how = dict(attributes)
        shape: Shape = shapes["x"] if "x" in shapes else (shapes["dy"][0], *how.pop("input"))
        sizes = dict(zip("bchw", shape, strict=True))
        return Invocation(kernel, {**sizes, **how})

    return lower


def _pool_rule(name: str) -> Callable[[Backward], None]:
    def rule(b: Backward) -> None:
        index: dict[str, Any] = {"index": b.value("index")} if name == "maxpool2d" else {}
        how = b.attributes() | {"input": tuple(b.shape("x")[1:])}
        b.give("x", b.emit(f"{name}_bw", {"dy": b.gradient("y"), **index}, how)["dx"])

    return rule


def _softmax_rule(b: Backward) -> None:
    inputs = {"y": b.value("y"), "dy": b.gradient("y")}
    b.give("x", b.emit("softmax_bw", inputs, b.attributes())["dx"])


def _softmax(step: str, like: str) -> Callable[[Shapes, Attributes], Invocation]:
    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        return Invocation(f"softmax_{step}", {"shape": shapes[like], **attributes})

    return lower


def _resized(kernel: str) -> Callable[[Shapes, Attributes], Invocation]:
    """Images of another size."""

    def lower(shapes: Shapes, attributes: Attributes) -> Invocation:
        how = dict(attributes)
        out = how.pop("out")
        shape: Shape = shapes["x"] if "x" in shapes else (shapes["dy"][0], *how.pop("input"))
        return Invocation(kernel, {**dict(zip("bchw", shape, strict=True)), "out": out, **how})

    return lower


def _resized_rule(name: str) -> Callable[[Backward], None]:
    def rule(b: Backward) -> None:
        how = b.attributes() | {"input": tuple(b.shape("x")[1:])}
        b.give("x", b.emit(f"{name}_bw", {"dy": b.gradient("y")}, how)["dx"])

    return rule


OPERATORS = (
    Operator("conv2d_fw", _convolution("fw"), rule=_convolution_rule),
    Operator("conv2d_wg", _convolution("wg")),
    Operator("conv2d_ig", _convolution("ig"), rule=_transposed_rule),
    Operator("linear_fw", _linear("fw"), _linear_shapes, _linear_rule),
    Operator("linear_wg", _linear("wg")),
    Operator("linear_ig", _linear("ig")),
    Operator("matmul", _product, _product_shapes, _product_rule),
    *(operator for name in NORMS for operator in _norms(name)),
    *(
        operator
        for name in ("maxpool2d", "avgpool2d")
        for operator in (
            Operator(f"{name}_fw", _pool(f"{name}_fw"), rule=_pool_rule(name)),
            Operator(f"{name}_bw", _pool(f"{name}_bw")),
        )
    ),
    *(
        operator
        for name in ("nearest", "bilinear")
        for operator in (
            Operator(f"{name}_fw", _resized(f"{name}_fw"), rule=_resized_rule(name)),
            Operator(f"{name}_bw", _resized(f"{name}_bw")),
        )
    ),
    Operator("softmax_fw", _softmax("fw", "x"), rule=_softmax_rule),
    Operator("softmax_bw", _softmax("bw", "y")),
)
