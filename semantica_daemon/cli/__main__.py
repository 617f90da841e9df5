"""The entry point of `semantica`: tries the fast path of `semantica add`, then runs any command through `main`.

Imports little at the top, because the fast path is measured in instructions.
"""

import os
import sys

from semantica_daemon.environment import restore_locale


def main() -> None:
    restore_locale(os.environ)
    arguments = sys.argv[1:]
    if arguments[:1] == ["add"]:
        from semantica_daemon.cli import fast_add  # noqa: PLC0415

        fast_add.run(arguments[1:])
    from semantica_daemon.cli.main import run  # noqa: PLC0415

    run(arguments)


if __name__ == "__main__":
    main()
