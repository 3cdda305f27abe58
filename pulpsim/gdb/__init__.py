"""A server for GDB: the remote serial protocol, spoken for a session of soc.debug.session."""
