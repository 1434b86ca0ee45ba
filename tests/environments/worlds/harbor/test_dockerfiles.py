"""The subset of Dockerfiles that bubblewrap honours; the rest is refused by line and name."""

from __future__ import annotations

import pytest

from environments.errors import Unplayable
from environments.sandboxes.trees import File, Tree
from environments.worlds.harbor.dockerfiles import Make, Put, Run, plan

CONTEXT = Tree(
    {
        "Dockerfile": File(b""),
        "a.txt": File(b"a"),
        "b.txt": File(b"b", 0o755),
        "src/main.c": File(b"main"),
        "src/lib/x.h": File(b"x"),
        "pack.tar.gz": File(b"z"),
    }
)


def planned(*lines: str):
    return plan("\n".join(("FROM debian:12", *lines)), "Dockerfile", CONTEXT)


def paths(*lines: str) -> list[str]:
    return [action.path for action in planned(*lines).actions if isinstance(action, Put)]


def test_files_and_folders_are_copied_as_docker_copies_them():
    assert paths("COPY a.txt /app/x.txt") == ["/app/x.txt"]
    assert paths("COPY a.txt /app/") == ["/app/a.txt"]
    assert paths("WORKDIR /app", "COPY a.txt .", "COPY a.txt b.txt ./") == ["/app/a.txt", "/app/a.txt", "/app/b.txt"]
    assert paths("COPY src /app/code") == ["/app/code/main.c", "/app/code/lib/x.h"]
    assert paths("COPY *.txt /app/") == ["/app/a.txt", "/app/b.txt"]
    assert paths('COPY ["a.txt", "/app/with blank"]') == ["/app/with blank"]
    assert paths("ADD ./a.txt /app") == ["/app"]
    assert "/app/Dockerfile" not in paths("COPY . /app")


def test_modes_are_kept_or_set():
    modes = [action.file.mode for action in planned("COPY b.txt /app/", "COPY --chmod=600 b.txt /app/").actions]
    assert modes == [0o755, 0o600]


def test_folder_variables_and_arguments_hold_for_what_comes_after():
    made = planned(
        "ARG where=/srv", "ENV A=1 B='two words'", "ENV C $A", "WORKDIR ${where}", "WORKDIR sub", "RUN echo \\", "  hi",
        "# a comment", "ENV D=${NONE:-d}", 'SHELL ["/bin/bash", "-c"]', "RUN echo $A", 'CMD ["x"]', "EXPOSE 80",
    )  # fmt: skip
    assert (made.workdir, made.env) == ("/srv/sub", {"A": "1", "B": "two words", "C": "1", "D": "d"})
    first, second = (action for action in made.actions if isinstance(action, Run))
    assert (" ".join(first.argv).split(), first.cwd) == (["/bin/sh", "-c", "echo", "hi"], "/srv/sub")
    assert (first.env["A"], first.env["where"], first.at) == ("1", "/srv", "Dockerfile:7")
    assert second.argv == ("/bin/bash", "-c", "echo $A")
    assert [action.path for action in made.actions if isinstance(action, Make)] == ["/srv", "/srv/sub"]


@pytest.mark.parametrize(
    "base",
    [
        "debian", "debian:12-slim", "ubuntu:24.04", "python:3.12-slim", "docker.io/library/ubuntu:22.04",
        "--platform=linux/amd64 ubuntu:24.04", "ubuntu:24.04 AS base",
        "ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624",
    ],
)  # fmt: skip
def test_a_plain_base_is_honoured(base):
    assert plan(f"FROM {base}\nWORKDIR /app", "Dockerfile", CONTEXT).workdir == "/app"


@pytest.mark.parametrize("base", ["node:22", "alpine", "python-extra:3", "nvidia/cuda:12", "example.org/debian:12"])
def test_another_base_is_refused_by_name(base):
    with pytest.raises(Unplayable, match=rf"Dockerfile:1: {base} is no plain"):
        plan(f"FROM {base}", "Dockerfile", CONTEXT)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "RUN apt-get update && apt-get install -y curl",
            "Dockerfile:2: RUN apt-get.*: apt-get update needs the network",
        ),
        ("RUN cd /app && pip install --no-cache-dir flask", "pip install needs the network"),
        ("RUN python3 -m pip install x", "python3 -m pip install needs the network"),
        ("RUN if true; then curl -L http://example.org; fi", "curl needs the network"),
        ("RUN git clone https://example.org/x", "git clone https://example.org/x needs the network"),
        ("RUN --mount=type=cache,target=/x true", "options of RUN"),
        ("RUN cat <<EOF", "here-documents"),
        ("COPY --from=build /x /y", "--from is not honoured"),
        ("COPY --chown=app:app a.txt /app/", "--chown is not honoured"),
        ("COPY missing.txt /app/", "missing.txt is not in the folder"),
        ("COPY ../a.txt /app/", "leads out of the folder"),
        ("COPY a.txt", "names what is copied"),
        ("ADD https://example.org/x /app/", "needs the network"),
        ("ADD pack.tar.gz /app/", "archives are not unpacked"),
        ("USER app", "one user"),
        ("HEALTHCHECK CMD true", "HEALTHCHECK CMD true: this instruction is not honoured"),
        ("ONBUILD RUN true", "not honoured"),
        ('ENTRYPOINT ["postgres"]', "is not started here"),
        ('SHELL ["zsh"]', "sh and bash"),
        ("FROM debian:12", "one stage"),
        ("WORKDIR $NOWHERE", "NOWHERE has no value"),
        ("WORKDIR ${A:+b}", "form of"),
        ("COPY a.txt \\", "the last line goes on"),
    ],
)
def test_what_is_not_honoured_is_refused_by_line(line, says):
    with pytest.raises(Unplayable, match=says) as error:
        planned(line)
    assert str(error.value).startswith("Dockerfile:2: ")


def test_an_ignore_file_is_refused_and_an_empty_dockerfile_too():
    with pytest.raises(Unplayable, match="dockerignore"):
        plan("FROM debian\nCOPY . /app", "Dockerfile", Tree({".dockerignore": File(b"*")}))
    with pytest.raises(Unplayable, match="without FROM"):
        plan("# nothing", "Dockerfile", CONTEXT)
