"""What the commands of the package (python -m keel.doctor, keel.gguf) have in common."""

import os
import sys


def run(main):
    """Ends the process with what main returns; with 1, and no traceback, when nobody reads its output."""
    try:
        try:
            status = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, which must find a place to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
