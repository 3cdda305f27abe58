"""Assembler and disassembler."""
