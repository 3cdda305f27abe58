"""Graphs of training steps: values and views, what is refused, saved and read again."""

import json
import re

import numpy as np
import pytest

from trainlib.deploy.gradient import differentiate
from trainlib.deploy.graph.passes import in_place, updates_at_once, without_dead
from trainlib.deploy.graph.registry import OPERATORS, add_node, call_of
from trainlib.deploy.graph.values import DeployError, Graph
from trainlib.deploy.interpret import Interpreter


def perceptron(classes: int = 3) -> Graph:
    """x[2, 4] -> linear -> ReLU -> linear -> cross-entropy."""
    numbers = np.random.default_rng(1)
    g = Graph()
    x, target = g.add("x", (2, 4), "input"), g.add("target", (2,), "input", "int32")
    for name, shape in {"a.weight": (5, 4), "a.bias": (5,), "b.weight": (classes, 5)}.items():
        g.add(name, shape, "parameter", array=numbers.standard_normal(shape))
    y = add_node(g, "linear_fw", {"X": x, "W": "a.weight", "bias": "a.bias"}, layer="a")["Y"]
    y = add_node(g, "relu_fw", {"x": y}, layer="relu")["y"]
    y = add_node(g, "linear_fw", {"X": y, "W": "b.weight"}, layer="b")["Y"]
    g.loss = add_node(g, "cross_entropy_loss", {"x": y, "t": target}, layer="loss")["loss"]
    g.trained = ("a.weight", "a.bias", "b.weight")
    return g


def test_every_operator_has_kernels_that_exist():
    with_rules = {name for name, operator in OPERATORS.items() if operator.rule}
    assert {"conv2d_fw", "linear_fw", "matmul", "lstm_fw", "take"} <= with_rules
    back = {name for name in with_rules if name.endswith(("_bw", "_wg", "_ig"))}
    assert back == {"conv2d_ig", "relu_bw"}  # a transposed convolution, and what is chosen


def test_a_view_lies_in_its_base():
    g = Graph()
    x = g.add("x", (2, 3, 4), "input")
    row = g.view("row", x, (3, 4), 12)
    part = g.view("part", row, (4,), 8)
    assert g.place(part) == ("x", 20)
    assert g.reshaped(x, (2, 3, 4)) == x
    assert g.views("x") == ["x", "row", "part"]


def test_a_view_that_reaches_past_its_base_is_refused():
    g = Graph()
    g.add("x", (2, 3), "input")
    message = "value y: 4 elements from 3 on are not in x, which has 6"
    with pytest.raises(DeployError, match=f"^{message}$"):
        g.view("y", "x", (4,), 3)


def test_names_and_sizes_that_cannot_be_are_refused():
    g = Graph()
    g.add("x", (2, 3), "input")
    with pytest.raises(DeployError, match=r"^value x: there are two of that name; rename one of"):
        g.add("x", (2,))
    with pytest.raises(DeployError, match=r"^value y: shape \[0\] has no elements$"):
        g.add("y", (0,))


def test_shapes_that_do_not_fit_are_refused_with_the_layer():
    g = Graph()
    g.add("x", (2, 3), "input")
    g.add("w", (4, 5), "parameter", array=np.zeros((4, 5)))
    message = "fc: linear_fw: X has shape [2, 3]; it takes [2, 5]"
    with pytest.raises(DeployError, match=f"^{re.escape(message)}$"):
        add_node(g, "linear_fw", {"X": "x", "W": "w"}, layer="fc")
    with pytest.raises(DeployError, match=r"^fc: matmul: A .* and B .* do not fit each other$"):
        add_node(g, "matmul", {"A": "x", "B": "w"}, layer="fc")


def test_a_value_that_is_read_before_it_is_there_is_found():
    g = perceptron()
    g.nodes.reverse()
    with pytest.raises(DeployError, match=r"^node 0, cross_entropy_loss: reads b\.Y before it is"):
        g.validate()


def test_a_graph_is_the_same_when_it_is_read_again(tmp_path):
    g = differentiate(perceptron())
    g.save(tmp_path / "graph.zip")
    again = Graph.load(tmp_path / "graph.zip")
    assert again.digest == g.digest
    assert again.nodes == g.nodes
    assert json.loads(json.dumps(g.to_json()))["loss"] == "loss.loss"


def test_a_file_that_is_no_graph_is_refused(tmp_path):
    (tmp_path / "file").write_text("hello")
    with pytest.raises(DeployError, match=r"^.*file: no graph: .*$"):
        Graph.load(tmp_path / "file")


def test_nodes_that_nothing_depends_on_are_dropped():
    g = perceptron()
    add_node(g, "gelu_fw", {"x": "a.Y"}, layer="unused")
    without_dead(g, [g.loss])
    assert [node.layer for node in g.nodes] == ["a", "relu", "b", "loss"]
    assert "unused.y" not in g.values


def test_an_activation_lies_where_its_input_does_and_is_not_read_any_more():
    g = differentiate(perceptron())
    before = Interpreter(g, values())
    before.run()
    in_place(g, g.nodes, [g.loss])
    assert g.values["relu.y"].base == "a.Y"
    assert g.values["relu.dx"].base == "b.dX"
    after = Interpreter(g, values())
    after.run()
    for name in g.trained:
        gradient = g.gradients[name]
        np.testing.assert_array_equal(after.get(gradient), before.get(gradient))


def values():
    numbers = np.random.default_rng(2)
    return {"x": numbers.standard_normal((2, 4)), "target": np.array([2, 0])}


def test_an_update_comes_after_the_last_reader_of_its_parameter():
    g = differentiate(perceptron())
    for name, gradient in g.gradients.items():
        inputs = {"w": name, "g": gradient}
        add_node(g, "sgd", inputs, {"lr": 0.1}, layer=name, step="update")
    updates_at_once(g)
    ops = [f"{node.op} {node.layer}" for node in g.nodes if node.step != "forward"]
    assert ops == [
        *("linear_wg b", "linear_ig b", "sgd b.weight", "relu_bw relu"),
        *("linear_wg a", "sgd a.weight", "sgd a.bias"),
    ]


def test_products_of_several_pairs_of_matrices_are_one_call():
    g = Graph()
    g.add("a", (2, 3, 4), "input")
    g.add("b", (2, 5, 4), "input")
    add_node(g, "matmul", {"A": "a", "B": "b"}, {"trans_b": True}, layer="scores")
    call = call_of(g, g.nodes[0])
    assert (call.region, call.kernel) == ("scores forward", "matmul_batched_f32")
    assert call.arguments == {"batch": 2, "n": 3, "k": 4, "m": 5, "trans_b": True}
    assert call.operands == {"A": "a", "B": "b", "C": "scores.C"}
