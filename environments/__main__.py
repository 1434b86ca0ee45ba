"""python3 -m environments play | rates | people | worlds"""

from core import installed, pipes


def main() -> int:
    installed.enter("httpx", "-m", "environments")
    pipes.end_with_reader()
    from environments import command

    return command.main()


if __name__ == "__main__":
    raise SystemExit(main())
