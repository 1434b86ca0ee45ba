"""Runs inside a verifier's sandbox, and there alone: runs /tests/test_outputs.py by the pytest that lies in /packages,
says each test as a line of TAP, and writes the share that passed, or the sum of the weights of those that did."""

import json
import os
import sys

sys.path.append("/packages")


def main() -> None:
    import pytest

    passed: dict = {}

    class Kept:
        def pytest_runtest_logreport(self, report):
            name = report.nodeid.split("::")[-1].split("[")[0]  # each of a test's parameters must pass
            passed[name] = passed.get(name, True) and report.outcome == "passed"

    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=/tests", "--confcutdir=/tests"]
    status = pytest.main([*options, "--import-mode=importlib", "/tests/test_outputs.py"], plugins=[Kept()])
    weights = dict.fromkeys(passed, 1)
    if os.path.exists("/tests/weights.json"):
        with open("/tests/weights.json") as opened:
            weights = json.load(opened)
    for number, (name, did) in enumerate(passed.items(), 1):
        print(f"{'ok' if did else 'not ok'} {number} - {name}")
    if status not in (0, 1) or not passed:
        sys.exit("pytest did not run the tests")
    won = sum(weight for name, weight in weights.items() if passed.get(name))
    with open("/logs/verifier/reward.txt", "w") as opened:
        print(won / sum(weights.values()), file=opened)


if __name__ == "__main__":
    main()
