"""What a handler may raise to say what kind of failure it was; any other exception counts as transient."""


class Transient(Exception):
    """Worth another attempt."""

    failure_class = "transient"


class Permanent(Exception):
    """Trying again would not help."""

    failure_class = "permanent"


class Infra(Exception):
    """Something around the job failed, not the job: worth another attempt."""

    failure_class = "infra"
