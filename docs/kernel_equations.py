"""What each kernel computes, and the shape at which its page says how long that takes.

Names are those of the kernel's tensors; d is a gradient of the loss, S(x) = 1 / (1 + e^-x).
"""

from collections.abc import Mapping
from typing import Any

from trainlib.registry import KERNELS

IMAGE = {"height": 16, "width": 16, "kernel": 3, "padding": 1}
CONVOLUTION = {**IMAGE, "inputs": 8, "outputs": 16}
FLAT = {"shape": [4096]}
SEQUENCE = {"steps": 4, "inputs": 16, "hidden": 32}
CHANNELS = {"c": 16, "hw": 256}
ROWS = {"rows": 64, "columns": 64}
POOL = {"c": 16, "h": 16, "w": 16, "kernel": 2}
LINEAR = {"inputs": 128, "outputs": 64}
SCALE = {"c": 8, "h": 8, "w": 8, "out": [16, 16]}

Shape = Mapping[str, Any]

EQUATIONS: dict[str, tuple[str, Shape]] = {
    "relu_fw_f32": ("y = max(x, 0)", FLAT),
    "relu_bw_f32": ("dx = dy where x > 0, else 0", FLAT),
    "leaky_relu_fw_f32": ("y = x where x > 0, else slope x", FLAT),
    "leaky_relu_bw_f32": ("dx = dy where x > 0, else slope dy", FLAT),
    "sigmoid_fw_f32": ("y = S(x)", FLAT),
    "sigmoid_bw_f32": ("dx = dy y (1 - y)", FLAT),
    "tanh_fw_f32": ("y = tanh(x)", FLAT),
    "tanh_bw_f32": ("dx = dy (1 - y^2)", FLAT),
    "abs_fw_f32": ("y = |x|", FLAT),
    "abs_bw_f32": ("dx = dy sign(x)", FLAT),
    "clamp_fw_f32": ("y = min(max(x, low), high)", FLAT | {"low": 0.0, "high": 6.0}),
    "clamp_bw_f32": ("dx = dy where low <= x <= high, else 0", FLAT | {"low": 0.0, "high": 6.0}),
    "elu_fw_f32": ("y = scale x where x > 0, else scale alpha (e^(slope x) - 1)", FLAT),
    "elu_bw_f32": ("dx = dy scale where x > 0, else dy scale alpha slope e^(slope x)", FLAT),
    "softplus_fw_f32": ("y = log(1 + e^(beta x)) / beta", FLAT),
    "softplus_bw_f32": ("dx = dy S(beta x)", FLAT),
    "replace_label_f32": ("y = new where x is old, else x", FLAT | {"old": 1, "new": 5}),
    "as_floats_f32": ("y = x, an integer, as a float", FLAT),
    "subtract_f32": ("y = a - b, broadcast", {"a": [64, 256], "b": [256]}),
    "divide_f32": ("y = a / b, broadcast", {"a": [64, 256], "b": [256]}),
    "slice_f32": (
        "y[i] = x[start + step i] for i < size",
        {"shape": [16, 32, 32], "start": [0, 1, 1], "size": [16, 30, 30]},
    ),
    "concat_f32": (
        "y = x0, x1, ... along an axis",
        {"shape": [16, 64, 16], "axis": 1, "sizes": [32, 32]},
    ),
    "huber_loss_f32": (
        "loss = mean of c (d - c / 2), d = x - t, c = d within -delta .. delta; dx = c / n",
        FLAT,
    ),
    "bce_logits_loss_f32": ("loss = mean of log(1 + e^x) - t x; dx = (S(x) - t) / n", FLAT),
    "bce_loss_f32": (
        "loss = mean of -t log x - (1 - t) log(1 - x); dx = (x - t) / (x (1 - x) n)",
        FLAT,
    ),
    "silu_fw_f32": ("y = x S(x)", FLAT),
    "silu_bw_f32": ("dx = dy S(x) (1 + x (1 - S(x)))", FLAT),
    "gelu_fw_f32": ("y = x Phi(x), Phi the normal distribution", FLAT),
    "gelu_bw_f32": ("dx = dy (Phi(x) + x Phi'(x))", FLAT),
    "swiglu_fw_f32": ("y = a S(a) b", FLAT),
    "swiglu_bw_f32": ("da = dy b S(a) (1 + a (1 - S(a))); db = dy a S(a)", FLAT),
    "dropout_f32": ("y = x / (1 - p) where kept, else 0", FLAT),
    "add_f32": ("y = a + b, broadcast", {"a": [4096]}),
    "multiply_f32": ("y = a b, broadcast", {"a": [4096]}),
    "residual_bw_f32": ("da = dy; db = dy", FLAT),
    "transpose_f32": ("y[i...] = x[permuted by axes]", {"shape": [64, 64], "axes": [1, 0]}),
    "pad_f32": (
        "y = x with value around it",
        {"shape": [8, 16, 16], "before": [0, 1, 1], "after": [0, 1, 1]},
    ),
    "sgd_f32": ("w -= lr (g + weight_decay w)", {**FLAT, "lr": 0.1}),
    "sgd_momentum_f32": (
        "b = momentum b + g + weight_decay w; w -= lr b",
        {**FLAT, "lr": 0.1, "momentum": 0.9},
    ),
    "accumulate_f32": ("g += scale x", FLAT),
    "adam_corrections_f32": ("c_i = 1 - beta_i (1 - c_i): 1 - beta_i^t of the next step", {}),
    "change_scale_f32": ("scale *= growth after interval finite totals, else backoff", {}),
    "adam_f32": (
        "g += weight_decay w; m, v: running means of g and g^2; w -= lr m' / (sqrt(v') + eps)",
        FLAT,
    ),
    "adamw_f32": (
        "w -= lr weight_decay w; m, v: running means of g and g^2; w -= lr m' / (sqrt(v') + eps)",
        FLAT,
    ),
    "exp_f32": ("y = e^x", FLAT),
    "log_f32": ("y = log(x)", FLAT),
    "erf_f32": ("y = erf(x)", FLAT),
    "sqrt_f32": ("y = sqrt(x)", FLAT),
    "rsqrt_f32": ("y = 1 / sqrt(x)", FLAT),
    "reciprocal_f32": ("y = 1 / x", FLAT),
    "neg_f32": ("y = -x", FLAT),
    "sin_f32": ("y = sin(x), x in radians; NaN beyond 2^17", FLAT),
    "cos_f32": ("y = cos(x), x in radians; NaN beyond 2^17", FLAT),
    "atan_f32": ("y = atan(x), from -pi/2 to pi/2", FLAT),
    "log1p_f32": ("y = log(1 + x), with all digits of a small x", FLAT),
    "expm1_f32": ("y = e^x - 1, with all digits of a small x", FLAT),
    "round_f32": ("y = the whole number next to x, the even one of two", FLAT),
    "floor_f32": ("y = the largest whole number that is not above x", FLAT),
    "mhsa_fw_f32": (
        "Q, K, V = W X; P = softmax(Q K^T / sqrt(size)); Y = (P V) Wo^T",
        {"length": 16, "embed": 32, "heads": 4},
    ),
    "mhsa_bw_f32": (
        "gradients of X, W and Wo of mhsa_fw_f32",
        {"length": 16, "embed": 32, "heads": 4},
    ),
    "matmul_f32": ("C = A B", {"n": 64, "k": 64, "m": 64}),
    "matmul_batched_f32": (
        "C[i] = A[i] B[i] for each i of the batch",
        {"batch": 4, "n": 32, "k": 32, "m": 32},
    ),
    "linear_fw_f32": ("Y = X W^T (+ bias)", LINEAR),
    "linear_wg_f32": ("dW = dY^T X", LINEAR),
    "linear_ig_f32": ("dX = dY W", LINEAR),
    "pwconv2d_fw_f32": (
        "Y = W X at every place (+ bias)",
        {"inputs": 16, "outputs": 32, "height": 8, "width": 8},
    ),
    "pwconv2d_wg_f32": (
        "dW = sum over places of dY X^T",
        {"inputs": 16, "outputs": 32, "height": 8, "width": 8},
    ),
    "pwconv2d_ig_f32": (
        "dX = W^T dY at every place",
        {"inputs": 16, "outputs": 32, "height": 8, "width": 8},
    ),
    "berhu_loss_f32": (
        "d = x - t; c = alpha max |d|; loss = mean of |d| where |d| <= c, else (d^2 + c^2) / 2c; "
        "dx its gradient",
        FLAT,
    ),
    "cross_entropy_loss_f32": (
        "loss = mean of -log softmax(x)[t]; dx = (softmax(x) - t) / b",
        {"b": 32, "classes": 64},
    ),
    "mse_loss_f32": ("loss = mean of (x - t)^2; dx = 2 factor (x - t) / count", FLAT),
    "l1_loss_f32": ("loss = mean of |x - t|; dx = sign(x - t) / count", FLAT),
    "conv2d_fw_f32": ("Y[o] = sum over i of W[o, i] * X[i] (+ bias), * a correlation", CONVOLUTION),
    "conv2d_wg_f32": ("dW[o, i] = dY[o] * X[i]", CONVOLUTION),
    "conv2d_ig_f32": ("dX[i] = sum over o of dY[o] * W[o, i] turned by 180 degrees", CONVOLUTION),
    "dwconv2d_fw_f32": ("Y[i] = W[i] * X[i] (+ bias)", {**IMAGE, "inputs": 16}),
    "dwconv2d_wg_f32": ("dW[i] = dY[i] * X[i]", {**IMAGE, "inputs": 16}),
    "dwconv2d_ig_f32": ("dX[i] = dY[i] * W[i] turned by 180 degrees", {**IMAGE, "inputs": 16}),
    "tconv2d_fw_f32": ("Y = the gradient of a convolution's input, of X (+ bias)", CONVOLUTION),
    "tconv2d_wg_f32": ("dW = the gradient of its weights", CONVOLUTION),
    "tconv2d_ig_f32": ("dX = the convolution of dY", CONVOLUTION),
    "embedding_fw_f32": ("y[i] = table[index[i]]", {"entries": 64, "columns": 32, "tokens": 64}),
    "embedding_bw_f32": ("dtable[index[i]] += dy[i]", {"entries": 64, "columns": 32, "tokens": 64}),
    "reduce_f32": ("y = sum (or mean, maximum) of x over axes", {"shape": [64, 64], "axes": [1]}),
    "softmax_fw_f32": ("y = e^x / sum of e^x along the axis", {"shape": [64, 64]}),
    "softmax_bw_f32": ("dx = y (dy - sum of y dy)", {"shape": [64, 64]}),
    "nearest_fw_f32": ("y[i] = x[floor(i h / out)], in both directions", SCALE),
    "nearest_bw_f32": ("dx = sums of dy over the places that took an element", SCALE),
    "bilinear_fw_f32": ("y = the weighted mean of the four nearest elements of x", SCALE),
    "bilinear_bw_f32": ("dx = sums of dy, with the same weights", SCALE),
    "batchnorm_fw_f32": (
        "y = gamma (x - mean) rstd + beta, rstd = 1 / sqrt(variance + eps), for each channel over "
        "batch and places; the running means follow",
        CHANNELS,
    ),
    "batchnorm_bw_f32": (
        "xn = (x - mean) rstd; dgamma = sum of dy xn; dbeta = sum of dy; "
        "dx = gamma rstd (dy - mean of dy - xn mean of dy xn)",
        CHANNELS,
    ),
    "batchnorm_apply_f32": ("y = gamma (x - mean) rstd + beta, means given", CHANNELS),
    "batchnorm_frozen_fw_f32": ("y = gamma (x - running mean) / sqrt(...) + beta", CHANNELS),
    "batchnorm_frozen_bw_f32": ("dx = gamma rstd dy; dgamma, dbeta as in batchnorm_bw", CHANNELS),
    "instancenorm_fw_f32": ("as batchnorm, for each image and channel over places", CHANNELS),
    "instancenorm_bw_f32": ("as batchnorm_bw, for each image and channel", CHANNELS),
    "instancenorm_apply_f32": ("y = gamma (x - mean) rstd + beta, means given", CHANNELS),
    "groupnorm_fw_f32": (
        "as batchnorm, for each image and group over its channels and places",
        {**CHANNELS, "groups": 4},
    ),
    "groupnorm_bw_f32": ("as batchnorm_bw, for each image and group", {**CHANNELS, "groups": 4}),
    "groupnorm_apply_f32": (
        "y = gamma (x - mean) rstd + beta, means given",
        {**CHANNELS, "groups": 4},
    ),
    "layernorm_fw_f32": ("y = gamma (x - mean) rstd + beta for each row", ROWS),
    "layernorm_bw_f32": ("as batchnorm_bw, for each row", ROWS),
    "layernorm_apply_f32": ("y = gamma (x - mean) rstd + beta, means given", ROWS),
    "rmsnorm_fw_f32": ("y = gamma x / sqrt(mean of x^2 + eps) for each row", ROWS),
    "rmsnorm_bw_f32": ("xn = x rstd; dgamma = sum of dy xn; dx = its gradient", ROWS),
    "rmsnorm_apply_f32": ("y = gamma x rstd, rstd given", ROWS),
    "maxpool2d_fw_f32": ("y = the maximum of each window, and where it was", POOL),
    "maxpool2d_bw_f32": ("dx = dy where the maximum was, else 0", POOL),
    "avgpool2d_fw_f32": ("y = the mean of each window", POOL),
    "avgpool2d_bw_f32": ("dx = dy / (elements of a window), summed over windows", POOL),
    "rnn_fw_f32": ("h = f(Wx x + bias_x + Wh h + bias_h) for every step", SEQUENCE),
    "rnn_bw_f32": ("gradients of rnn_fw_f32", SEQUENCE),
    "lstm_fw_f32": (
        "i, f, g, o = gates of Wx x + Wh h + biases; c = f c + i g; h = o tanh(c)",
        SEQUENCE,
    ),
    "lstm_bw_f32": ("gradients of lstm_fw_f32", SEQUENCE),
    "gru_fw_f32": (
        "r, z = gates; n = tanh(Wx x + bias_x + r (Wh h + bias_h)); h = n + z (h - n)",
        SEQUENCE,
    ),
    "gru_bw_f32": ("gradients of gru_fw_f32", SEQUENCE),
    "train_f32": (
        "layers forward, loss, layers backward, weights -= lr gradients; so for every step",
        {
            "input": [8, 8, 8],
            "lr": 0.1,
            "layers": [
                {"kind": "conv2d", "outputs": 16, "kernel": 3},
                {"kind": "relu"},
                {"kind": "linear", "outputs": 32},
            ],
        },
    ),
}

EQUATIONS |= {
    kernel: EQUATIONS[f"{kernel.removesuffix(half)}f32"]
    for half in ("f16", "bf16")
    for kernel in KERNELS
    if kernel.endswith(f"_{half}") and f"{kernel.removesuffix(half)}f32" in EQUATIONS
}
"""Kernels whose elements have two bytes."""

EQUATIONS |= {
    f"cast_{source}_{target}": ("y = x, rounded to nearest", FLAT)
    for half in ("f16", "bf16")
    for source, target in (("f32", half), (half, "f32"))
}
