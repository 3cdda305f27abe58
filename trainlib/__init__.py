"""DNN primitives as programs of the cluster, and what checks them."""
