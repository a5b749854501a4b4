#!/usr/bin/env python3
"""Writes tests/ops/golden/golden_<family>.inc: inputs and right answers for the operations, from NumPy and SciPy.

    python3 tools/make/golden_ops.py [folder [family ...]]        (all families, or those named)

The answers are made in float64 (or exact integers) and rounded once to the result's dtype. Each file is one table of
`struct golden` rows (tests/ops/golden/golden.h). The inputs come from fixed seeds, so the files change only when the
scripts in golden/ do. bfloat16 is kept as its bits."""
# Each writes its tables when it is imported.
import golden.first
import golden.random_numbers
import golden.calls
import golden.along_axes
import golden.elementwise
