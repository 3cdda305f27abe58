"""The devices on the board around the chip: memories, what the UART hears."""
