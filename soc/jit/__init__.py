"""Hot code into machine code, while it runs."""
