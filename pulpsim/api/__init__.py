"""The functions of `import pulpsim` that are the command line's, with values for files."""
