"""Exceptions by which a handler gives the class of its failure; any other exception is a transient failure."""


class Transient(Exception):
    """The job may be retried."""

    failure_class = "transient"


class Permanent(Exception):
    """The job is not retried."""

    failure_class = "permanent"


class Infra(Exception):
    """Something around the job failed, not the job itself: it may be retried."""

    failure_class = "infra"
