"""What of the caller's environment goes along with a command: by the list, or all of it."""

from collections.abc import Mapping

from semantica_daemon import environment


def variables(mine: Mapping[str, str], everything: bool = False) -> dict[str, str]:
    """Without what no job is given from outside, and without what no JSON could carry."""
    found = dict(mine) if everything else environment.allowed(mine)
    return {name: value for name, value in found.items() if may_go(name) and is_text(value)}


def may_go(name: str) -> bool:
    """Shell functions and the like have names that no job takes."""
    return name.isidentifier() and name.isascii() and not environment.is_ours(name)


def is_text(word: str) -> bool:
    """Python keeps bytes that are no UTF-8 as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
