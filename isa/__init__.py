"""Instructions: their encodings, their meanings, and the programs made of them.

    profile     the instruction set of a core: decodes, encodes, finds by name     profiles.py
    Insn, Isa   an instruction as declared; a set of them                          declare.py
    Encoding    a row of the manual's listing                                      encoding.py
    words       the arithmetic that meanings are written in                        words.py
    page        the reference page of an instruction                               docs.py
    Program     what is loaded into memory and run                                 program.py

An extension is one file of declarations: rv32*.py, zicsr.py, xf*.py, xpulp/*.py, xcv/*.py. To add
an instruction, declare it there.
"""
