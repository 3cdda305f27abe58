"""Checks: what watches a program for races, for bytes misused, for banks that it makes collide.

Step functions note accesses (soc.prelude.trace_points) and synchronisation (soc.core.sync_points).
What they have noted is looked at in batches, in the order in which it happened, by compiled code of
its own (soc.check.events). A run that is not checked has none of this.
"""
