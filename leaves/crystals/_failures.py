"""What SDKs and connections raise, in the one vocabulary of `CrystalError`."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from branches.agents.crystal import CrystalError
from branches.agents.normalise import http_error
from branches.agents.retrying import UNREACHABLE

OVERLOADED: Final = 503
_STATUS_OF: Final = {
    "overloaded_error": OVERLOADED,
    "api_error": 500,
    "server_error": 500,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
}
_ODD_STATUS: Final = {529: OVERLOADED}


def unreachable(provider: str, error: BaseException) -> CrystalError:
    """Nobody was reached, or the connection broke before the answer was whole."""
    reason = str(error) or type(error).__name__
    return CrystalError(UNREACHABLE, f"{provider} could not be reached, or did not finish its answer: {reason}")


def reported(provider: str, type: str, message: str) -> CrystalError:
    """An error that came in the place of an answer, or in the middle of one, by the name that the provider gives it."""
    return http_error(_STATUS_OF.get(type, 500), f"{provider}: {message or type}")


def status_error(
    provider: str, status: int, message: str, headers: Mapping[str, str] | None = None, type: str | None = None
) -> CrystalError:
    """The failure that a status stands for. An error event in a stream has the status of its type, not of the stream.

    Overloaded is an unavailable server everywhere, whatever number a provider has for it.
    """
    if status < 400:
        return reported(provider, type or "", message)
    given = headers or {}
    retry_after = given.get("retry-after")
    milliseconds = given.get("retry-after-ms", "")
    if milliseconds.replace(".", "", 1).isdigit():
        retry_after = str(float(milliseconds) / 1000)
    return http_error(
        _ODD_STATUS.get(status, status), f"{provider}: {message}", retry_after=retry_after, now=time.time()
    )


@contextmanager
def translated(sdk: Any, provider: str) -> Generator[None]:
    """Raise what an SDK of the OpenAI family raises as `CrystalError`; `sdk` is its module."""
    import httpx2

    try:
        yield
    except sdk.APIStatusError as error:
        raise status_error(
            provider, error.status_code, _said(error.body) or error.message, error.response.headers, _type(error.body)
        ) from error
    except (sdk.APIConnectionError, httpx2.TransportError) as error:
        raise unreachable(provider, error.__cause__ or error) from error
    except sdk.APIError as error:
        code = _error_of(error.body).get("code")
        status = code if isinstance(code, int) else 200
        raise status_error(provider, status, _said(error.body) or error.message, type=_type(error.body)) from error
    except json.JSONDecodeError as error:
        raise CrystalError("invalid_response", f"{provider} answered with something unreadable: {error}") from error


def _error_of(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    inner: Any = body.get("error", body)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return inner if isinstance(inner, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]


def _said(body: object) -> str | None:
    message = _error_of(body).get("message")
    return message if isinstance(message, str) else None


def _type(body: object) -> str | None:
    error = _error_of(body)
    found = (error.get(name) for name in ("type", "code"))
    return next((each for each in found if isinstance(each, str) and each in _STATUS_OF), None)
