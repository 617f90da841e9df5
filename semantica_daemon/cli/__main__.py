"""The entry point of `semantica`: tries the fast path of `semantica add`, then runs any command through `main`.

Imports nothing else at the top, because the fast path is measured in instructions.
"""

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["add"]:
        from semantica_daemon.cli import fast_add  # noqa: PLC0415

        fast_add.run(arguments[1:])
    from semantica_daemon.cli.main import run  # noqa: PLC0415

    run(arguments)


if __name__ == "__main__":
    main()
