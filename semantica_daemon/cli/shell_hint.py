"""The hint for a command that only a shell can run. `add` prints it at once, `outcome` after the job has failed."""

import shlex

BUILTINS = frozenset({
    ".", "alias", "bg", "cd", "command", "eval", "exec", "exit", "export", "fg", "for", "if", "jobs", "popd", "pushd",
    "read", "set", "source", "trap", "type", "ulimit", "umask", "unset", "wait", "while",
})  # fmt: skip


def shell_hint(argv: list[str]) -> str:
    """Returns a hint for a command that needs a shell: a whole command line in one word, such as `echo a | wc -l`, or a
    builtin such as `cd`. Empty for any other command."""
    if argv and argv[0] in BUILTINS:
        return f"{argv[0]} is a shell builtin: use sh -c {shlex.quote(shlex.join(map(str, argv)))}"
    word = str(argv[0]) if len(argv) == 1 else ""
    is_line = any(char.isspace() or char in "|&;<>$`*" for char in word)
    return f"a line for the shell is run with -- sh -c {shlex.quote(word)}" if is_line else ""
