#!/usr/bin/env python3
"""Runs the examples in the docstrings of the type stubs and prints those that differ.

    check_examples.py [MODULE] [NAME ...]

MODULE is what the examples call mx: keel.core, or mlx.core to compare with MLX. NAMEs choose
functions, such as `take` or `fft.rfft`; without them all examples run. Names that the module
does not have, or that raise NotImplementedError, are listed apart. The exit status is 1 when an
example differs, and 2 when there was none to run.
"""

import ast
import doctest
import importlib
import os
import sys
import tempfile
from pathlib import Path

STUBS = Path(__file__).resolve().parent.parent / "keel" / "core"


def docstrings(tree, prefix):
    """A dotted name, its docstring and the line of it, for everything below a node."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            name = prefix + node.name
            text = ast.get_docstring(node)
            if text:
                yield name, text, node.body[0].lineno - 1
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node, name + ".")


def has(module, name):
    """Whether the module has an object of this dotted name."""
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


class Runner(doctest.DocTestRunner):
    """Counts what differs, and keeps apart what is not implemented."""

    def __init__(self):
        super().__init__(verbose=False)
        self.n_run, self.n_differ, self.unbuilt = 0, 0, []

    def report_start(self, out, test, example):
        self.n_run += 1

    def report_failure(self, out, test, example, got):
        if test.name not in self.unbuilt:
            self.n_differ += 1
            super().report_failure(out, test, example, got)

    def report_unexpected_exception(self, out, test, example, exc_info):
        if issubclass(exc_info[0], NotImplementedError) and test.name not in self.unbuilt:
            self.unbuilt.append(test.name)
        if test.name not in self.unbuilt:
            self.n_differ += 1
            super().report_unexpected_exception(out, test, example, exc_info)


def main(arguments):
    module = importlib.import_module(arguments[0] if arguments else "keel.core")
    wanted = set(arguments[1:])
    parser, runner, absent = doctest.DocTestParser(), Runner(), []
    device = module.default_device()
    for path in sorted(STUBS.glob("*.pyi")):
        prefix = "" if path.stem == "__init__" else path.stem + "."
        for name, text, line in docstrings(ast.parse(path.read_text()), prefix):
            if wanted and name not in wanted:
                continue
            test = parser.get_doctest(text, {"mx": module}, name, str(path), line)
            if test.examples and not has(module, name):
                absent.append(name)
            elif test.examples:
                runner.run(test)
                module.set_default_device(device)
    print(f"{module.__name__}: {runner.n_run} examples, {runner.n_differ} differ")
    if absent:
        print(f"{len(absent)} names are not in {module.__name__}: {' '.join(absent)}")
    if runner.unbuilt:
        print(f"{len(runner.unbuilt)} names are not implemented: {' '.join(runner.unbuilt)}")
    return 2 if not runner.n_run else 1 if runner.n_differ else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the examples of save and load write files
        sys.exit(main(sys.argv[1:]))
