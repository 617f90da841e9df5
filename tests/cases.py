"""`each_case`: a table of cases as one test. `pytest.mark.parametrize` stays where each case needs new fixtures."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Test = Callable[..., Any]


def each_case(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Tries every row in one test, with the same fixtures for all, and reports each row that fails.

    Takes the arguments of `pytest.mark.parametrize`, and can be stacked like it.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(fields, row if len(fields) > 1 else (row,), strict=True)) for row in rows]
    assert cases, "a table without rows tests nothing"

    def decorate(test: Test) -> Test:
        async def try_each_async(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                try:
                    await test(**case, **fixtures)
                except Exception as error:
                    failures.append(with_note(error, case))
            report(failures, len(cases))

        def try_each(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                try:
                    test(**case, **fixtures)
                except Exception as error:
                    failures.append(with_note(error, case))
            report(failures, len(cases))

        return disguise(try_each_async if inspect.iscoroutinefunction(test) else try_each, test, fields)

    return decorate


def disguise(wrapper: Test, test: Test, fields: list[str]) -> Test:
    """Gives the wrapper the name and marks of the test, and as its arguments the fixtures alone."""
    signature = inspect.signature(test)
    fixtures = [parameter for name, parameter in signature.parameters.items() if name not in fields]
    assert len(fixtures) == len(signature.parameters) - len(fields), f"{test.__name__} does not take all of {fields}"
    wrapper.__dict__.update(test.__dict__)
    wrapper.__name__, wrapper.__qualname__, wrapper.__doc__ = test.__name__, test.__qualname__, test.__doc__
    wrapper.__module__ = test.__module__
    wrapper.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    return wrapper


def with_note(error: Exception, case: dict[str, Any]) -> Exception:
    error.add_note(f"in the case {case!r:.500}")
    return error


def report(failures: list[Exception], count: int) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} cases fail", failures)
