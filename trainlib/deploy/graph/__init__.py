"""Training graphs: values and operators, with their kernels, shapes and gradients; passes."""
