"""Runs inside a verifier's sandbox, and there alone: runs hidden tests by the pytest that lies in /packages.

What it is asked comes on standard input with a word that the work is not told; what the tests came to goes, with that
word, to a copy of standard output that prints do not reach. Then the process ends at once, without its exit hooks.
"""

import json
import os
import sys

REPO = "/tests/repo"


def main() -> None:
    asked = json.load(sys.stdin)
    word, wanted = asked["word"], set(asked["tests"])
    out = os.dup(1)
    os.dup2(2, 1)
    places = [place for place in ("/packages", "/site") if os.path.isdir(place)]
    sys.path += places
    import pytest

    # the standard library first, so that nothing of the work's is taken for it; then the work; then what is installed
    own = [place for place in sys.path if "-packages" not in place and place not in places]
    rest = [place for place in sys.path if place not in own]
    work = [place for place in (REPO, f"{REPO}/src") if os.path.isdir(place)]
    sys.path[:] = [*own, *work, *rest]
    os.chdir(REPO)
    found: dict = {}

    def asked_as(name):
        return name if name in wanted else name.partition("[")[0]

    class Kept:
        def pytest_collection_modifyitems(self, items):
            items[:] = [item for item in items if asked_as(item.nodeid) in wanted]

        def pytest_runtest_logreport(self, report):
            passed = report.outcome == "passed" or (hasattr(report, "wasxfail") and report.outcome == "skipped")
            name = asked_as(report.nodeid)
            found[name] = found.get(name, True) and passed

    files = sorted({name.partition("::")[0] for name in wanted})
    options = ["-q", "--color=no", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={REPO}", "-o", "addopts="]
    options += ["--import-mode=append", "--continue-on-collection-errors"]
    pytest.main([*options, *(name for name in files if os.path.isfile(name))], plugins=[Kept()])
    sys.stderr.flush()
    os.write(out, f"\n{word} {json.dumps(found)}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()
