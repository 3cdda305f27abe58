"""ONNX's operators: what a graph of them computes, held against ONNX's own reference."""

from math import prod

import numpy as np
import pytest

from trainlib.deploy import DeployError
from trainlib.deploy.gradient import differentiate
from trainlib.deploy.interpret import Interpreter

onnx = pytest.importorskip("onnx", reason="onnx, the extra `onnx`, is missing")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from trainlib.deploy.importers.onnx_graph import read  # noqa: E402
from trainlib.deploy.importers.onnx_operators import RULES  # noqa: E402

IMAGE, LINE, ROWS = (2, 4, 6, 5), (2, 4, 9), (3, 8)
HEADS, STEPS, VOLUME = (1, 2, 5, 4), (5, 3, 4), (1, 2, 3, 4, 5)
NUMBERS = np.random.default_rng(3)


def floats(*shape):
    return NUMBERS.uniform(0.5, 1.5, shape).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


STATE, RECURRENT = floats(2, 3, 6), (floats(1, 12, 4), floats(1, 12, 3))
CASES = [  # operator, shape of the first input, other inputs (None: left out), attributes
    *((name, ROWS, (), {}) for name in ("Abs", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish")),
    *((name, ROWS, (), {}) for name in ("Identity", "LeakyRelu", "LogSoftmax", "Mish", "Neg")),
    *((name, ROWS, (), {}) for name in ("Relu", "Selu", "Sigmoid", "Softmax", "Softplus")),
    *((name, ROWS, (), {}) for name in ("Softsign", "Tanh", "Celu", "Gelu", "Transpose")),
    *((name, ROWS, (), {}) for name in ("Cos", "Sin")),
    *((name, ROWS, (floats(*ROWS),), {}) for name in ("Add", "Sub", "Mul", "Div", "Sum", "Mean")),
    ("Log", ROWS, "positive", {}),
    ("Sqrt", ROWS, "positive", {}),
    ("Reciprocal", ROWS, "positive", {}),
    ("Swish", ROWS, (), {"alpha": 1.5}),
    ("HardSigmoid", ROWS, (), {"alpha": 0.5, "beta": 0.25}),
    ("Gelu", ROWS, (), {"approximate": "tanh"}),
    ("Clip", ROWS, (np.float32(-0.5), np.float32(0.75)), {}),
    ("Clip", ROWS, (None, np.float32(0.75)), {}),
    ("PRelu", IMAGE, (floats(4, 1, 1),), {}),
    ("Pow", ROWS, (np.float32(3),), {}),
    ("Where", ROWS, "where", {}),
    *((name, ROWS, (), {}) for name in ("Atan", "Cosh", "Sinh", "Tan")),
    *((name, ROWS, "small", {}) for name in ("Acos", "Asin", "Atanh")),
    ("Max", ROWS, (floats(*ROWS), floats(8)), {}),
    ("Min", ROWS, (floats(*ROWS),), {}),
    ("ReduceMax", IMAGE, (whole(2, 3),), {"keepdims": 0}),
    ("ReduceMin", IMAGE, (whole(1),), {}),
    ("Dropout", ROWS, (np.float32(0.5), np.array(False)), {}),
    ("ReduceL1", IMAGE, (whole(1),), {}),
    ("ReduceL2", IMAGE, (whole(2, 3),), {}),
    ("ReduceLogSumExp", IMAGE, (whole(1),), {"keepdims": 0}),
    ("ReduceMean", IMAGE, (whole(2, 3),), {"keepdims": 0}),
    ("ReduceSum", IMAGE, (whole(-1),), {}),
    ("ReduceSumSquare", IMAGE, (whole(1),), {}),
    ("Concat", ROWS, (floats(2, 8),), {"axis": 0}),
    ("DepthToSpace", IMAGE, (), {"blocksize": 2}),
    ("DepthToSpace", IMAGE, (), {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", (1, 2, 4, 6), (), {"blocksize": 2}),
    ("Expand", (3, 1), (whole(2, 1, 4),), {}),
    ("Flatten", IMAGE, (), {"axis": 2}),
    ("Gather", IMAGE, (whole(3, 0, 0),), {"axis": 1}),
    ("Gather", IMAGE, (np.array(2, np.int64),), {"axis": -1}),
    ("Pad", IMAGE, (whole(0, 0, 1, 2, 0, 0, 0, 1), np.float32(0.25)), {}),
    ("Pad", IMAGE, (whole(1, 2, 0, 1), None, whole(2, 3)), {"mode": "reflect"}),
    ("Pad", IMAGE, (whole(1, 2, 0, 1), None, whole(2, 3)), {"mode": "edge"}),
    ("Reshape", IMAGE, (whole(0, -1),), {}),
    ("Slice", IMAGE, (whole(1, 0), whole(3, 5), whole(1, 2), whole(1, 2)), {}),
    ("Slice", IMAGE, (whole(-1), whole(-7), whole(2), whole(-1)), {}),
    ("Split", IMAGE, (whole(1, 3),), {"axis": 1}),
    ("Split", IMAGE, (), {"axis": 2, "num_outputs": 2}),
    ("Squeeze", (3, 1, 4), (whole(1),), {}),
    ("Tile", ROWS, (whole(2, 3),), {}),
    ("Unsqueeze", ROWS, (whole(0, -1),), {}),
    ("Conv", IMAGE, (floats(6, 4, 3, 3), floats(6)), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("Conv", IMAGE, (floats(6, 2, 3, 2),), {"auto_pad": "SAME_UPPER", "group": 2}),
    ("Conv", IMAGE, (floats(6, 4, 3, 2),), {"auto_pad": "SAME_LOWER"}),
    ("Conv", LINE, (floats(6, 4, 3), floats(6)), {"pads": [1, 1], "dilations": [2]}),
    ("ConvTranspose", IMAGE, (floats(4, 3, 3, 3), floats(3)), {"strides": [2, 2]}),
    ("AveragePool", IMAGE, (), {"kernel_shape": [2, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", LINE, (), {"kernel_shape": [3], "strides": [3]}),
    ("MaxPool", IMAGE, (), {"kernel_shape": [3, 2], "pads": [0, 1, 1, 0], "strides": [2, 2]}),
    ("MaxPool", LINE, (), {"kernel_shape": [3], "strides": [3]}),
    ("MaxPool", IMAGE, (), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("GlobalAveragePool", IMAGE, (), {}),
    ("GlobalMaxPool", IMAGE, (), {}),
    ("Resize", IMAGE, (None, None, whole(2, 4, 12, 10)), {"mode": "linear"}),
    (
        *("Resize", IMAGE, (None, np.array([1, 1, 2, 2], np.float32))),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    *((name, ROWS, "large", {}) for name in ("Acosh", "ReduceLogSum")),
    ("Asinh", ROWS, (), {}),
    ("LpNormalization", ROWS, (), {"axis": 0}),
    ("MeanVarianceNormalization", IMAGE, (), {}),
    ("Mod", ROWS, (np.float32(0.5),), {"fmod": 1}),
    ("Shrink", ROWS, (), {"lambd": 0.5, "bias": 0.25}),
    ("ThresholdedRelu", ROWS, (), {"alpha": 0.25}),
    ("LRN", (4, 4, 3, 2), (), {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 2.0}),
    ("TopK", ROWS, (whole(3),), {"axis": 1}),
    ("TopK", ROWS, (whole(2),), {"axis": 0, "largest": 0}),
    ("CumSum", ROWS, (np.array(1),), {}),
    ("CumSum", IMAGE, (np.array(-3),), {"exclusive": 1, "reverse": 1}),
    ("ReduceProd", IMAGE, (whole(1, 3),), {"keepdims": 0}),
    ("Trilu", ROWS, (np.array(1),), {}),
    ("Trilu", IMAGE, (), {"upper": 0}),
    ("GatherElements", ROWS, (whole([0, 7, 1], [3, 3, 2], [5, 0, 0]),), {"axis": 1}),
    ("GatherND", IMAGE, (whole([0, 1], [1, 3], [1, 0]),), {}),
    ("GatherND", IMAGE, (whole([[1, 5], [0, 0]], [[3, 2], [3, 4]]),), {"batch_dims": 1}),
    ("ScatterElements", ROWS, (whole([0], [3], [5]), floats(3, 1)), {"axis": 1}),
    (
        *("ScatterElements", ROWS, (whole([0, 0], [3, 2], [5, 5]), floats(3, 2))),
        {"axis": 1, "reduction": "add"},
    ),
    ("ScatterND", IMAGE, (whole([0, 1], [1, 3]), floats(2, 6, 5)), {}),
    ("ScatterND", IMAGE, (whole([1], [1]), floats(2, 4, 6, 5)), {"reduction": "add"}),
    ("Col2Im", (2, 12, 9), (whole(6, 5), whole(2, 3)), {"pads": [0, 1, 0, 1], "strides": [2, 2]}),
    ("Einsum", IMAGE, (floats(4, 3),), {"equation": "bchw,ck->bkhw"}),
    ("Einsum", IMAGE, (floats(5, 3),), {"equation": "...i,ij"}),
    ("Einsum", (3, 3, 4), (floats(3, 4), floats(4)), {"equation": "iij,ij,j->i"}),
    ("Einsum", (2, 3, 4), (floats(2, 5, 4), floats(5)), {"equation": "bid,bjd,j->bij"}),
    ("Einsum", ROWS, (), {"equation": "ij->"}),
    (
        *("Conv", VOLUME, (floats(4, 1, 2, 3, 2), floats(4))),
        {"pads": [1, 0, 0, 0, 1, 1], "strides": [1, 2, 1], "group": 2},
    ),
    ("ConvTranspose", VOLUME, (floats(2, 3, 2, 2, 3), floats(3)), {"strides": [2, 2, 1]}),
    ("MaxPool", VOLUME, (), {"kernel_shape": [2, 3, 1], "strides": [1, 1, 2]}),
    ("AveragePool", VOLUME, (), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
    ("AveragePool", IMAGE, (), {"kernel_shape": [4, 3], "strides": [3, 3], "ceil_mode": 1}),
    ("GlobalAveragePool", VOLUME, (), {}),
    ("Resize", IMAGE, (None, None, whole(2, 4, 9, 10)), {"mode": "cubic"}),
    ("Resize", VOLUME, (None, None, whole(1, 2, 6, 8, 9)), {"mode": "linear"}),
    (
        *("Resize", VOLUME, (None, None, whole(1, 2, 6, 8, 5))),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    ("Gemm", ROWS, (floats(5, 8), floats(5)), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", ROWS, (floats(3, 5), floats(8, 5)), {"transA": 1}),
    ("MatMul", (2, 3, 8), (floats(8, 5),), {}),
    ("MatMul", (2, 3, 8), (floats(2, 8, 5),), {}),
    ("LayerNormalization", (2, 3, 8), (floats(8), floats(8)), {}),
    ("RMSNormalization", (2, 3, 8), (floats(8),), {}),
    ("InstanceNormalization", IMAGE, (floats(4), floats(4)), {}),
    ("GroupNormalization", IMAGE, (floats(4), floats(4)), {"num_groups": 2}),
    ("BatchNormalization", IMAGE, (floats(4), floats(4), floats(4), floats(4)), {}),
    ("RNN", STEPS, (floats(1, 6, 4), floats(1, 6, 6), floats(1, 12)), {}),
    ("LSTM", STEPS, (floats(1, 24, 4), floats(1, 24, 6), floats(1, 48)), {}),
    ("LSTM", STEPS, (floats(1, 24, 4), floats(1, 24, 6)), {"direction": "reverse"}),
    ("LSTM", STEPS, (floats(1, 24, 4), floats(1, 24, 6)), {"layout": 1}),
    (
        *("LSTM", STEPS),
        (floats(2, 24, 4), floats(2, 24, 6), floats(2, 48), None, STATE, STATE),
        {"direction": "bidirectional"},
    ),
    (
        *("GRU", STEPS, (floats(1, 18, 4), floats(1, 18, 6), floats(1, 36))),
        {"linear_before_reset": 1},
    ),
    (
        *("GRU", STEPS, (floats(2, 18, 4), floats(2, 18, 6), None, whole(5, 5, 5))),
        {"direction": "bidirectional", "linear_before_reset": 1},
    ),
    ("Attention", HEADS, (floats(*HEADS), floats(*HEADS)), {}),
    ("Attention", HEADS, (floats(*HEADS), floats(*HEADS)), {"is_causal": 1, "scale": 0.7}),
]
OF_OTHERS = {  # that have no gradient, are no ONNX standard, or held against Deeploy's graphs
    *("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Sign"),
    *("Ceil", "Floor", "Round"),
    *("ArgMax", "ArgMin", "CastLike", "ConcatFromSequence", "Hardmax", "OneHot"),
    *("SequenceAt", "SequenceConstruct", "SplitToSequence", "Xor"),
    *("BatchNormInternal", "BiasGelu", "Cast", "FastGelu", "FusedMatMul", "MSELoss"),
    *("GRUTraining", "LSTMTraining"),
    *("NegativeLogLikelihoodLoss", "QuickGelu", "SimplifiedLayerNormalization"),
    "SoftmaxCrossEntropyLoss",
}


def graph_of(tmp_path, nodes, data, constants, outputs=("y",)):
    """x times a parameter, then these nodes, then a mean square: read, and as ONNX sees it."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Mul", ["x", "scale"], ["h"]), *nodes]
    inputs = [
        helper.make_tensor_value_info(name, kind, data[name].shape)
        for name in ("x", "target", "scale")
    ]
    initial = [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    forward = helper.make_graph(nodes, "made", inputs, ends, initial)
    loss = helper.make_node("MSELoss", [outputs[0], "target"], ["loss"])
    whole_graph = helper.make_graph([*nodes, loss], "made", inputs, ends, initial)
    opset = [helper.make_opsetid("", 24)]
    onnx.save(helper.make_model(whole_graph, opset_imports=opset), tmp_path / "network.onnx")
    update = helper.make_node("SGD", ["scale", "scale_grad"], ["scale_new"], lr=0.1)
    onnx.save(
        helper.make_model(helper.make_graph([update], "updates", [], [])),
        tmp_path / "optimizer.onnx",
    )
    return helper.make_model(forward, opset_imports=opset)


def inputs_of(shape, others):
    """What the operator reads, by name, and constants."""
    if others in ("positive", "small", "large"):
        others = ()
    if others == "where":
        mask = NUMBERS.random(shape) < 0.5
        return ["mask", "h", "b"], {"mask": mask, "b": floats(*shape)}
    names = [f"c{n}" if array is not None else "" for n, array in enumerate(others)]
    arrays = [np.asarray(array) for array in others if array is not None]
    return ["h", *names], dict(zip((n for n in names if n), arrays, strict=True))


@pytest.mark.parametrize(
    ("operator", "shape", "others", "attributes"),
    CASES,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_operator_gives_what_onnxs_reference_does(operator, shape, others, attributes, tmp_path):
    names, constants = inputs_of(shape, others)
    x = NUMBERS.standard_normal(shape).astype(np.float32)
    x = {"positive": np.abs(x) + 0.5, "small": np.tanh(x) / 2, "large": np.abs(x) + 3}.get(
        str(others), x
    )
    data = {"x": x, "scale": floats(1)}
    outputs = ["y", "other"] if operator in ("Split", "TopK") else ["y"]
    node = onnx.helper.make_node(operator, names, outputs, **attributes)
    model = graph_of(tmp_path, [node], data | {"target": x}, constants, outputs)
    wanted = ReferenceEvaluator(model).run(None, {"x": data["x"], "scale": data["scale"]})[0]
    data["target"] = np.zeros(wanted.shape or (1,), np.float32)
    graph_of(tmp_path, [node], data, constants, outputs)
    training = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)
    graph = training.graph
    loss = next(node for node in graph.nodes if node.op == "mse_loss")
    interpreter = Interpreter(graph, {"x": data["x"], "target": data["target"]})
    interpreter.run()
    found = interpreter.get(loss.inputs["x"])
    assert prod(found.shape) == wanted.size
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, 2e-5, 2e-5)
    assert "scale" in differentiate(graph).gradients


def test_a_split_without_sizes_is_into_as_many_parts_as_there_are_results(tmp_path):
    split = onnx.helper.make_node("Split", ["h"], ["a", "b"], axis=1)
    join = onnx.helper.make_node("Concat", ["b", "a"], ["y"], axis=1)
    x = floats(*ROWS)
    data = {"x": x, "scale": floats(1), "target": x}
    graph_of(tmp_path, [split, join], data, {})
    graph = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data).graph
    interpreter = Interpreter(graph, {"x": x, "target": x})
    interpreter.run()
    wanted = np.square(np.roll(x * data["scale"], 4, 1) - x).mean()
    assert float(interpreter.get(graph.loss).item()) == pytest.approx(wanted, rel=1e-6)


def test_the_shape_of_what_is_refused_is_no_mistake_of_its_own(tmp_path):
    make = onnx.helper.make_node
    nodes = [
        make("Det", ["h"], ["a"], name="det"),
        make("Shape", ["a"], ["s"]),
        make("ConstantOfShape", ["s"], ["z"]),
        make("Add", ["a", "z"], ["y"]),
    ]
    data = {"x": floats(*ROWS), "scale": floats(1), "target": floats(*ROWS)}
    graph_of(tmp_path, nodes, data, {})
    message = (
        "node det: Det: there is no kernel for it; `pulpsim deploy --operators` lists "
        "those that there are"
    )
    with pytest.raises(DeployError, match=f"^{message}$"):
        read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)


def test_random_numbers_are_not_drawn_before_the_run(tmp_path):
    make = onnx.helper.make_node
    nodes = [
        make("RandomNormal", [], ["noise"], name="noise", shape=list(ROWS)),
        make("Constant", [], ["ones"], value=onnx.numpy_helper.from_array(floats(*ROWS))),
        make("Dropout", ["ones", "half", "training"], ["mask"]),
        make("Sum", ["h", "noise", "mask"], ["y"]),
    ]
    data = {"x": floats(*ROWS), "scale": floats(1), "target": floats(*ROWS)}
    constants = {"half": np.array(0.5, np.float32), "training": np.array(True)}
    graph_of(tmp_path, nodes, data, constants)
    message = "node noise: RandomNormal: random numbers of its own; Dropout has them: let others "
    with pytest.raises(DeployError, match=f"^{message}come with x$"):
        read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)
    graph_of(tmp_path, [nodes[1], nodes[2], make("Add", ["h", "mask"], ["y"])], data, constants)
    graph = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data).graph
    assert [node.op for node in graph.nodes] == ["dropout", "multiply", "add", "mse_loss"]


def test_comparisons_choose_and_scales_that_are_put_together_are_known(tmp_path):
    helper = onnx.helper
    data = {"x": NUMBERS.standard_normal(IMAGE).astype(np.float32), "scale": floats(1)}
    scales = [onnx.numpy_helper.from_array(np.array(n, np.float32)) for n in ([1, 1], [2, 2])]
    nodes = [
        helper.make_node("Greater", ["h", "low"], ["above"]),
        helper.make_node("LessOrEqual", ["h", "high"], ["below"]),
        helper.make_node("And", ["above", "below"], ["inside"]),
        helper.make_node("GreaterOrEqual", ["h", "high"], ["over"]),
        helper.make_node("Less", ["h", "least"], ["under"]),
        helper.make_node("Or", ["over", "under"], ["outside"]),
        helper.make_node("Sign", ["h"], ["sign"]),
        helper.make_node("Equal", ["sign", "one"], ["is_one"]),
        helper.make_node("Not", ["is_one"], ["is_not"]),
        helper.make_node("Cast", ["is_not"], ["again"], to=onnx.TensorProto.BOOL),
        helper.make_node("Where", ["inside", "h", "sign"], ["first"]),
        helper.make_node("Where", ["outside", "high", "first"], ["second"]),
        helper.make_node("Where", ["again", "second", "h"], ["chosen"]),
        *(helper.make_node("Constant", [], [f"s{n}"], value=s) for n, s in enumerate(scales)),
        helper.make_node("Concat", ["s0", "s1"], ["scales"], axis=0),
        helper.make_node(
            *("Resize", ["chosen", "", "scales"], ["y"]),
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    names = {"low": -0.5, "high": 0.75, "least": -1.25, "one": 1.0}
    constants = {name: np.array([n], np.float32) for name, n in names.items()}
    model = graph_of(tmp_path, nodes, data | {"target": data["x"]}, constants)
    [wanted] = ReferenceEvaluator(model).run(None, data)
    data["target"] = np.zeros(wanted.shape, np.float32)
    graph_of(tmp_path, nodes, data, constants)
    training = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)
    interpreter = Interpreter(training.graph, {n: data[n] for n in ("x", "target")})
    interpreter.run()
    loss = float(interpreter.get(training.graph.loss).reshape(()))
    assert loss == pytest.approx(float(np.square(wanted.astype(np.float64)).mean()), rel=1e-6)


def test_integers_that_are_computed_choose_and_sequences_are_parts(tmp_path):
    helper = onnx.helper
    data = {"x": NUMBERS.standard_normal(ROWS).astype(np.float32), "scale": floats(1)}
    nodes = [
        helper.make_node("ArgMax", ["h"], ["largest"], axis=1, keepdims=0),
        helper.make_node("OneHot", ["largest", "depth", "values"], ["ones"], axis=0),
        helper.make_node("ArgMin", ["h"], ["least"], axis=-1),
        helper.make_node("GatherElements", ["h", "least"], ["low"], axis=1),
        helper.make_node("Gather", ["table", "largest"], ["rows"]),
        helper.make_node("Hardmax", ["h"], ["first"]),
        helper.make_node("CastLike", ["least", "h"], ["place"]),
        helper.make_node("Cast", ["h"], ["cut"], to=onnx.TensorProto.INT64),
        helper.make_node("CastLike", ["cut", "h"], ["whole"]),
        helper.make_node("Greater", ["h", "low"], ["above"]),
        helper.make_node("Less", ["h", "place"], ["below"]),
        helper.make_node("Xor", ["above", "below"], ["one"]),
        helper.make_node("Cast", ["one"], ["ones_there"], to=onnx.TensorProto.FLOAT),
        helper.make_node("SplitToSequence", ["h", "sizes"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "second"], ["part"]),
        helper.make_node("SequenceConstruct", ["part", "part"], ["both"]),
        helper.make_node("ConcatFromSequence", ["both"], ["joined"], axis=1),
        helper.make_node("Transpose", ["ones"], ["turned"]),
        helper.make_node("Sum", ["turned", "rows", "first", "whole", "ones_there"], ["some"]),
        helper.make_node("Mul", ["joined", "some"], ["product"]),
        helper.make_node("CastLike", ["half", "h"], ["limit"]),
        helper.make_node("Clip", ["product", "limit"], ["clipped"]),
        helper.make_node("ReduceMax", ["h"], ["top"], keepdims=0),
        helper.make_node("Clip", ["clipped", "", "top"], ["within"]),
        helper.make_node("Add", ["within", "low"], ["y"]),
    ]
    constants = {
        "half": np.array(0.5),
        **{"depth": np.array(8), "values": floats(2), "table": floats(8, 8)},
        **{"sizes": whole(4, 4), "second": np.array(1)},
    }
    model = graph_of(tmp_path, nodes, data | {"target": data["x"]}, constants)
    [wanted] = ReferenceEvaluator(model).run(None, data)
    data["target"] = np.zeros(wanted.shape, np.float32)
    graph_of(tmp_path, nodes, data, constants)
    training = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)
    interpreter = Interpreter(training.graph, {n: data[n] for n in ("x", "target")})
    interpreter.run()
    loss = float(interpreter.get(training.graph.loss).reshape(()))
    assert loss == pytest.approx(float(np.square(wanted.astype(np.float64)).mean()), rel=1e-6)
    assert "scale" in differentiate(training.graph).gradients


def test_every_operator_of_onnxs_standard_is_tried():
    assert {case[0] for case in CASES} | OF_OTHERS == set(RULES)


def test_shapes_that_are_computed_from_constants_are_known_before_the_run(tmp_path):
    helper = onnx.helper
    nodes = [
        helper.make_node("Shape", ["h"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["h", "wanted"], ["y"]),
    ]
    data = {"x": floats(2, 3, 4), "scale": floats(1), "target": floats(2, 12)}
    graph_of(tmp_path, nodes, data, {"first": whole(0), "rest": whole(-1)})
    graph = read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data).graph
    assert [node.op for node in graph.nodes] == ["multiply", "mse_loss"]


@pytest.mark.parametrize(
    ("operator", "others", "attributes", "message"),
    [
        ("Det", (), {}, "there is no kernel for it; .*"),
        ("AveragePool", (), {"kernel_shape": [2, 2], "dilations": [2, 1]}, "dilations; .*"),
        ("ArgMax", (), {"select_last_index": 1}, "select_last_index; it is the first .*"),
        ("ScatterElements", (whole(0), floats(1)), {"reduction": "max"}, "reduction max; .*"),
        ("ScatterND", (whole([0], [0]), floats(2, 4, 6, 5)), {}, "a place that is written to .*"),
        ("Einsum", (floats(4),), {"equation": "bchw->b"}, "bchw->b has 1 operands; there are 2"),
        ("Einsum", (floats(4),), {"equation": "bch,c->b"}, "bch,c->b: bch has other axes .*"),
        ("Einsum", (floats(3),), {"equation": "bchw,c->b"}, "an axis of 4 and one of 3 for c; .*"),
        ("Mod", (floats(2),), {}, "several divisors; there may be one"),
        ("Col2Im", (whole(4, 4, 4), whole(2, 2, 2)), {}, "3 dimensions; there are images"),
        ("Col2Im", (whole(4, 4), whole(2, 2)), {"pads": [0, 0, 1, 1]}, "pads of two sizes; .*"),
        ("MaxPool", (), {}, "no 'kernel_shape'"),
        (
            "Resize",
            (None, None, whole(2, 4, 12, 10)),
            {"mode": "cubic", "cubic_coeff_a": -0.5},
            "cubic, half_pixel; .*",
        ),
        ("GroupNormalization", (floats(2), floats(2)), {"num_groups": 2}, r"scales of \[2\]; .*"),
        ("Pow", (floats(2),), {}, "several exponents; there may be one"),
        ("Cast", (), {"to": 10}, "another type than float32; the chip computes with floats: .*"),
        ("GRU", RECURRENT, {}, "linear_before_reset = 0; .*"),
        ("LSTM", RECURRENT, {"activations": ["Relu", "Tanh", "Tanh"]}, "activations relu, .*"),
        ("LSTM", RECURRENT, {"clip": 1.0}, "clip or input_forget; .*"),
        ("LSTM", RECURRENT, {"direction": "sideways"}, "direction sideways; .*"),
        (
            *("RNN", (*RECURRENT, None, np.array([5, 4, 2], np.int32))),
            *({}, "sequence_lens; all sequences have 5 steps"),
        ),
        ("LSTM", (*RECURRENT, *[None] * 4, floats(1, 9)), {}, "P; there are no peepholes"),
    ],
    ids=lambda v: v if isinstance(v, str) and v.isalpha() else "",
)
def test_what_an_operator_does_not_take_is_said(operator, others, attributes, message, tmp_path):
    shape = STEPS if operator in ("GRU", "LSTM", "RNN") else IMAGE
    names, constants = inputs_of(shape, others)
    node = onnx.helper.make_node(operator, names, ["y"], name="node_1", **attributes)
    data = {"x": floats(*shape), "scale": floats(1), "target": floats(*shape)}
    graph_of(tmp_path, [node], data, constants)
    with pytest.raises(DeployError, match=f"^node node_1: {operator}: {message}$"):
        read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)


RECURRENT_LAYERS = {  # gates in torch's order, by ONNX's; attributes
    "LSTM": ((0, 3, 1, 2), {}),
    "GRU": ((1, 0, 2), {"linear_before_reset": 1}),
    "RNN": ((0,), {"activations": ["Relu"]}),
}


@pytest.mark.parametrize("kind", RECURRENT_LAYERS)
def test_parameters_of_recurrent_layers_learn_as_pytorchs(kind, tmp_path):
    torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")
    helper, kinds = onnx.helper, onnx.TensorProto
    gates, attributes = RECURRENT_LAYERS[kind]
    how = {"nonlinearity": "relu"} if kind == "RNN" else {}
    torch.manual_seed(1)
    layer = getattr(torch.nn, kind)(4, 6, **how).double()
    x, target = torch.randn(5, 3, 4).double(), torch.randn(1, 3, 6).double()
    torch.nn.functional.mse_loss(layer(x)[0][-1:], target).backward()

    def turned(array, way):
        """Rows of gates in another order."""
        return array.reshape(len(gates), 6, -1)[list(way)].reshape(array.shape)

    wx, wh, bx, bh = (turned(p.detach().numpy(), gates) for p in layer.parameters())
    data = {"x": x.numpy(), "target": target.numpy(), "W": wx[None], "R": wh[None]}
    data = {n: a.astype(np.float32) for n, a in {**data, "B": np.append(bx, bh)[None]}.items()}
    inputs = [helper.make_tensor_value_info(n, kinds.FLOAT, a.shape) for n, a in data.items()]
    nodes = [
        helper.make_node(f"{kind}Training" if kind != "RNN" else kind, [*"xWRB"], ["", "h"]),
        helper.make_node("MSELoss", ["h", "target"], ["loss"]),
        *(helper.make_node("SGD", [n, f"{n}_grad"], [f"{n}_new"], lr=0.1) for n in "WRB"),
    ]
    nodes[0].attribute.extend(helper.make_attribute(n, v) for n, v in attributes.items())
    onnx.save(helper.make_model(helper.make_graph(nodes, "made", inputs, [])), tmp_path / "n.onnx")
    graph = differentiate(read(tmp_path / "n.onnx", None, data).graph)
    interpreter = Interpreter(graph, {n: data[n] for n in ("x", "target")})
    interpreter.run()
    found = {n: interpreter.get(g) for n, g in graph.gradients.items()}
    back = np.argsort(gates)
    halves = np.split(found["B"].reshape(-1), 2)
    own = [turned(part, back) for part in (found["W"][0], found["R"][0], *halves)]
    for part, parameter in zip(own, layer.parameters(), strict=True):
        np.testing.assert_allclose(part, parameter.grad.numpy(), 1e-5, 1e-7)
