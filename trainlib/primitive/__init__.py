"""What a primitive is: its arguments and tensors, and how it is cut into tiles and phases."""
