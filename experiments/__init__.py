"""Reproduction of the paper, runs of the default model and benchmarks: ``python -m experiments --help``.

Stands beside the library, uses it as any user would, and is not part of the installed package.
"""
