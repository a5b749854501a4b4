"""python -m keel: what python -m keel.doctor shows."""

from keel._command import run
from keel.doctor import main

run(main)
