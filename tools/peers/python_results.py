"""A plugin of pytest for python_packages.sh: writes each test's result to the file KEEL_RESULTS at once.

A test that ends the process then costs only itself: the next run goes on behind it. Each line is a
list in JSON: what pytest calls the test, "started", "passed", "failed" or "skipped", and why it
failed. The last line of a run that came to its end is ["", "end", ""].
"""

import json
import os

import pytest


def results(path):
    """The last result of each test in the file at `path`, and why; "started" is a test that ended the process."""
    with open(path) as f:
        return {name: (result, why) for name, result, why in map(json.loads, f)}


def pytest_configure():
    open(os.environ["KEEL_RESULTS"], "a").close()


def say(name, result, why=""):
    with open(os.environ["KEEL_RESULTS"], "a") as f:
        print(json.dumps([name, result, why]), file=f)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    try:
        return (yield)
    except SystemExit as e:  # a program that is no test, though its name says so
        return pytest.CollectReport(collector.nodeid, "failed", f"it exits when it is imported: {e}", [])


def pytest_collection_modifyitems(items):
    known = results(os.environ["KEEL_RESULTS"])
    items[:] = [i for i in items if i.nodeid not in known]


def pytest_runtest_logstart(nodeid):
    say(nodeid, "started")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        say(report.nodeid, report.outcome, crash.message if crash else "")


def pytest_sessionfinish():
    say("", "end")
