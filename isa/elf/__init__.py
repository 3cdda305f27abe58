"""ELF files: segments, symbols, attributes, source lines; and their writer."""
