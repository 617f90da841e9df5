"""The command of `semantica map` with an item in place of its replacement strings, which are those of GNU parallel."""

import re

PATTERN = re.compile(r"\{(?:|\.|/|//|/\.|#)\}")
EXTENSION = re.compile(r"\.[^/.]*\Z")

Part = str | tuple[str]  # text as it is, or a replacement string


class Template:
    """A command whose words may contain {} and its kin. Without any of them the item becomes the last word."""

    def __init__(self, command: list[str]) -> None:
        has_any = any(PATTERN.search(word) for word in command)
        self._words = [_parts(word) for word in ([*command] if has_any else [*command, "{}"])]

    def argv(self, item: str, number: int) -> list[str]:
        return ["".join([_value(part, item, number) for part in parts]) for parts in self._words]


def _parts(word: str) -> list[Part]:
    found: list[Part] = []
    place = 0
    for match in PATTERN.finditer(word):
        found += [word[place : match.start()], (match[0],)]
        place = match.end()
    return [part for part in (*found, word[place:]) if part]


def _value(part: Part, item: str, number: int) -> str:
    if isinstance(part, str):
        return part
    kind = part[0]
    if kind == "{}":
        return item
    if kind == "{#}":
        return str(number)
    if kind == "{//}":
        return _folder(item)
    text = item.rpartition("/")[2] if "/" in kind else item
    return EXTENSION.sub("", text) if "." in kind else text


def _folder(item: str) -> str:
    """As dirname(1)."""
    inner = item.rstrip("/")
    folder, slash, _ = inner.rpartition("/")
    if not inner:
        return "/" if item else "."
    return folder.rstrip("/") or ("/" if slash else ".")
