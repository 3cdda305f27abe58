"""Training graphs of ONNX: one that is made here; Deeploy's, where they lie beside the clone."""

import re

import numpy as np
import pytest

from soc.chip.spec import load_chip
from trainlib.deploy import SGD, Deployed, DeployError
from trainlib.deploy.gradient import differentiate
from trainlib.deploy.interpret import Interpreter

onnx = pytest.importorskip("onnx", reason="onnx, the extra `onnx`, is missing")

from tests.trainlib.deploy.graphs import GRAPHS, STEPS, checks, graph  # noqa: E402
from trainlib.deploy.importers.onnx_graph import read  # noqa: E402

NEEDS = pytest.mark.skipif(
    not GRAPHS.is_dir(), reason="Deeploy's graphs are neither in DEEPLOY_GRAPHS nor in ../shared"
)
DEFECTS = {
    "SleepConViT": (
        "node GeluGrad_78_GeluGrad_backward: GeluGrad reads node_0_encoder_ff_ff1_MatMul__0, which "
        "no Gelu reads or gives; node GradientAccumulator14_InPlaceAccumulatorV2_backward: "
        "node_0_encoder_ff_ff1_MatMul__0_grad has [1, 95, 48], "
        "encoder_ff_ff1_bias_grad.accumulation.buffer has [48]; --repair derives such gradients "
        "from the forward nodes"
    )
}
"""Graphs that are taken to be repaired alone, and what is said else."""
QUICK = ("SimpleMLP_v1", "Autoencoder", "DSCNN_b")


@NEEDS
@pytest.mark.parametrize("name", STEPS)
def test_gradients_of_deeploys_graphs_are_the_golden_ones_in_float64(name):
    training = graph(name)
    differentiated = differentiate(training.graph)
    names = [value.name for value in differentiated.of_role("input")]
    interpreter = Interpreter(differentiated, dict(zip(names, training.batches[0], strict=True)))
    interpreter.run()
    golden = np.load(GRAPHS / name / "golden.npz")
    loss = float(interpreter.get(differentiated.loss).reshape(()))
    assert loss == pytest.approx(float(np.ravel(golden["loss/f64"])[0]), rel=1e-12)
    wanted = {k.split("/")[2]: k for k in golden.files if re.fullmatch("grad/0/.*/f64", k)}
    assert wanted.keys() <= differentiated.gradients.keys()
    for parameter, key in wanted.items():
        found = interpreter.get(differentiated.gradients[parameter])
        bound = 1e-10 * np.abs(golden[key]).max()
        np.testing.assert_allclose(found, golden[key].reshape(found.shape), 0, bound)


@NEEDS
@pytest.mark.parametrize("name", DEFECTS)
def test_backward_nodes_with_defects_are_refused_unless_the_graph_is_to_be_repaired(name):
    folder = GRAPHS / name
    data = dict(np.load(folder / "inputs.npz"))
    with pytest.raises(DeployError, match=f"^{re.escape(DEFECTS[name])}$"):
        read(folder / "network.onnx", folder / "optimizer.onnx", data)


@NEEDS
@pytest.mark.parametrize("name", STEPS)
def test_deeploys_graphs_come_to_the_golden_losses_gradients_and_weights_on_the_chip(name, request):
    if name not in QUICK and not request.config.getoption("--full"):
        pytest.skip("a long one: --full")
    assert [check for check in checks(name) if not check.is_right] == []


def made(tmp_path, nodes=None, optimizer=True):
    """x[2, 4] -> Gemm -> Relu -> MatMul -> mean squared error; the last node first."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = nodes or [
        helper.make_node("MSELoss", ["y", "target"], ["loss"]),
        helper.make_node("MatMul", ["h", "v_t"], ["y"]),
        helper.make_node("Transpose", ["v"], ["v_t"], perm=[1, 0]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], transB=1),
        helper.make_node("ReluGrad", ["unknown", "h"], ["ignored"]),
    ]
    shapes = {"x": (2, 4), "target": (2, 3), "w": (5, 4), "b": (5,), "v": (3, 5)}
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("loss", kind, ())]
    network = helper.make_model(helper.make_graph(nodes, "made", inputs, outputs))
    onnx.save(network, tmp_path / "network.onnx")
    rates = {"w": 0.1, "v": 0.2}
    updates = [
        helper.make_node("SGD", [n, f"{n}_grad"], [f"{n}_new"], lr=rate)
        for n, rate in rates.items()
    ]
    graph = helper.make_graph(updates if optimizer else [], "updates", [], [])
    onnx.save(helper.make_model(graph), tmp_path / "optimizer.onnx")
    numbers = np.random.default_rng(4)
    return {n: numbers.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def read_made(tmp_path, data):
    return read(tmp_path / "network.onnx", tmp_path / "optimizer.onnx", data)


def test_nodes_in_any_order_are_taken_with_their_rates_and_transposes_become_products(tmp_path):
    data = made(tmp_path)
    training = read_made(tmp_path, data)
    assert [n.op for n in training.graph.nodes] == [
        *("linear_fw", "relu_fw", "linear_fw", "mse_loss"),
    ]
    assert training.graph.trained == ("w", "v")
    optimizer = SGD.by_rates(training.rates)
    assert [part.lr for part in optimizer.parts] == pytest.approx([0.1, 0.2])
    deployed = Deployed(training.graph, optimizer, load_chip("pulp"))
    trained = deployed.train(training.sequence())
    x, target, w, b, v = (data[n].astype(np.float64) for n in ("x", "target", "w", "b", "v"))
    h = np.maximum(x @ w.T + b, 0)
    d = 2 * (h @ v.T - target) / 6
    np.testing.assert_allclose(trained.weights["v"], v - 0.2 * d.T @ h, 0, 1e-6)
    np.testing.assert_allclose(trained.weights["w"], w - 0.1 * ((d @ v) * (h > 0)).T @ x, 0, 1e-6)
    np.testing.assert_array_equal(trained.weights["b"], data["b"])


@pytest.mark.parametrize("name", ["w", "b"])
def test_parameters_with_nan_are_refused_whether_they_learn_or_not(name, tmp_path):
    data = made(tmp_path)
    data[name].flat[3:] = np.nan
    message = rf"^{name}: (17 of 20|2 of 5) values are NaN, the first at \[(0, )?3\]; every sum .*$"
    with pytest.raises(DeployError, match=message):
        Deployed(read_made(tmp_path, data).graph, SGD(lr=0.1), load_chip("pulp"))


def test_gradients_that_read_another_value_or_have_another_shape_are_defects(tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Gelu", ["x"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["y"]),
        helper.make_node("MSELoss", ["y", "target"], ["loss"]),
        helper.make_node("MSELossGrad", ["y", "target"], ["dy"]),
        helper.make_node("GeluGrad", ["dy", "{}"], ["dx"], name="back"),
        helper.make_node("SGD", ["b", "dy"], ["b_new"], lr=0.1, name="learn"),
    ]
    shapes = {"x": (2, 4), "target": (2, 4), "b": (4,), "dy": (2, 4)}
    data = {n: np.ones(s, np.float32) for n, s in shapes.items() if n != "dy"}

    def save(read_back, bias):
        nodes[4].input[1], nodes[5].input[1] = read_back, bias
        known = [helper.make_tensor_value_info(n, kind, s) for n, s in shapes.items()]
        graph = helper.make_graph(nodes, "made", known[:3], [], value_info=known[3:])
        onnx.save(helper.make_model(graph), tmp_path / "network.onnx")

    save("y", "dy")
    message = (
        r"^node back: GeluGrad reads y, which no Gelu reads or gives; node learn: dy has \[2, 4\], "
        r"b has \[4\]; --repair derives such gradients from the forward nodes$"
    )
    with pytest.raises(DeployError, match=message):
        read(tmp_path / "network.onnx", None, data)
    training = read(tmp_path / "network.onnx", None, data, repairs=True)
    assert training.graph.trained == ("b",)
    save("x", "b_sum")
    assert read(tmp_path / "network.onnx", None, data).graph.trained == ("b",)


def test_all_nodes_that_have_no_kernel_are_refused_together(tmp_path):
    helper = onnx.helper
    nodes = [
        helper.make_node("MSELoss", ["y", "target"], ["loss"]),
        helper.make_node("NonZero", ["x"], ["h"], name="nonzero_1"),
        helper.make_node("Relu", ["h"], ["r"], name="relu_1"),
        helper.make_node("Det", ["r"], ["d"], name="det_1"),
        helper.make_node("AveragePool", ["x"], ["p"], name="pool_1"),
        helper.make_node("Sum", ["d", "p"], ["y"], name="sum_1"),
    ]
    data = made(tmp_path, nodes)
    lists = "there is no kernel for it; `pulpsim deploy --operators` lists those that there are"
    lines = [
        f"node nonzero_1: NonZero: {lists}",
        f"node det_1: Det: {lists}",
        "node pool_1: AveragePool: no 'kernel_shape'",
    ]
    with pytest.raises(DeployError) as found:
        read_made(tmp_path, data)
    assert sorted(str(found.value).split("\n")) == sorted(lines)


def test_nodes_that_depend_on_themselves_are_refused(tmp_path):
    helper = onnx.helper
    nodes = [
        helper.make_node("MSELoss", ["y", "target"], ["loss"]),
        helper.make_node("Add", ["z", "x"], ["y"], name="first"),
        helper.make_node("Relu", ["y"], ["z"], name="second"),
    ]
    data = made(tmp_path, nodes)
    with pytest.raises(DeployError, match=r"^second: depends on itself$"):
        read_made(tmp_path, data)


def test_a_graph_without_an_optimiser_or_a_loss_is_refused(tmp_path):
    data = made(tmp_path, optimizer=False)
    message = r"^.*optimizer\.onnx: no SGD node says which parameters learn; give --optimizer$"
    with pytest.raises(DeployError, match=message):
        read_made(tmp_path, data)
    made(tmp_path, [onnx.helper.make_node("Relu", ["x"], ["loss"])])
    with pytest.raises(DeployError, match=r"^made: 0 losses; there is one of MSELoss, .*$"):
        read_made(tmp_path, data)


def test_data_that_are_missing_and_files_that_are_none_are_refused(tmp_path):
    data = made(tmp_path)
    del data["w"]
    with pytest.raises(DeployError, match=r"^--data: nothing for x, target, w, b, v; give arr_0"):
        read_made(tmp_path, data)
    (tmp_path / "network.onnx").write_text("hello")
    with pytest.raises(DeployError, match=r"^.*network\.onnx: no ONNX file$"):
        read_made(tmp_path, data)
