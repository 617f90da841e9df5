"""Callers that are attached to a job: they follow it from its first output on. An attachment ends with its connection.

The caller opens it before it enqueues the job, so that it exists before the job can start.
"""

from secrets import token_hex


class Attachment:
    def __init__(self) -> None:
        self.attach_id = token_hex(8)


class Attachments:
    def __init__(self) -> None:
        self._open: dict[str, Attachment] = {}

    def open(self) -> Attachment:
        attachment = Attachment()
        self._open[attachment.attach_id] = attachment
        return attachment

    def find(self, attach_id: str) -> Attachment | None:
        """None if the caller is gone, or belonged to an earlier daemon."""
        return self._open.get(attach_id)

    def close(self, attachment: Attachment) -> None:
        self._open.pop(attachment.attach_id, None)
