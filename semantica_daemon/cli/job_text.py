"""A job in a few words: its command as one would type it, its duration, and JSON cut to a length."""

import json

from semantica_daemon import prose
from semantica_daemon.cli import format
from semantica_daemon.client.json_types import Any, Json

LONGEST_JSON = 2000


def what(job: Json) -> str:
    """The command, else the subject, else the tag."""
    return str(command(job) or job["subject_key"] or job["user_tag"] or "-")


def command(job: Json) -> str:
    """Quoted for a shell; empty for a job without a command."""
    argv = (job["payload"] or {}).get("argv") if job["execution_mode"] == "SUBPROCESS" else None
    return " ".join(_quoted(str(word)) for word in argv) if argv else ""


def _quoted(word: str) -> str:
    plain = word and all(char.isalnum() or char in "@%+=:,./-_" for char in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"


def took(job: Json) -> str:
    """How long a job or a run took, or has taken so far."""
    if job["started_at"] is None:
        return "-"
    return prose.duration((job["finished_at"] or format.now()) - job["started_at"])


def short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_JSON else text[:LONGEST_JSON] + " …"
