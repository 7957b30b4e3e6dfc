"""The middleware of WSGI applications."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence

from ._report import answer
from ._request_rules import REPORT_PATH, RequestRules, wall_clock_ns
from ._service_level import Request, ServiceLevel

Environment = Dict[str, Any]
WsgiApplication = Callable[[Environment, Any], Iterable[bytes]]


class WsgiMiddleware:
    """Times each request of an application until its last byte is produced, and answers for the report.

    ``environ["tailbound.optional"]`` says whether the request's optional content is served.

    - ``path``: the path of the report; ``None`` for none
    - ``untimed``: beginnings of paths whose latency does not count, such as those of streams
    - ``start_header``: a header in which a proxy writes when it got the request, such as
      ``"X-Request-Start"``, so that the time in the server's queue counts; only if the proxy always sets it
    """

    def __init__(
        self,
        application: WsgiApplication,
        service_level: ServiceLevel,
        *,
        path: Optional[str] = REPORT_PATH,
        untimed: Sequence[str] = (),
        start_header: Optional[str] = None,
        wall_clock: Callable[[], int] = wall_clock_ns,
    ) -> None:
        self._application = application
        self._service_level = service_level
        self._rules = RequestRules(path, untimed, start_header, wall_clock)
        header = (start_header or "").upper().replace("-", "_")
        self._start_key = f"HTTP_{header}" if header else ""

    def __call__(self, environ: Environment, start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == self._rules.path:
            return self._report(environ, start_response)
        if not self._rules.is_timed(path):
            environ["tailbound.optional"] = True
            return self._application(environ, start_response)
        request = self._service_level.request(self._rules.waited_ns(environ.get(self._start_key)))
        environ["tailbound.optional"] = request.optional
        try:
            pieces = self._application(environ, start_response)
        except BaseException:
            request.end()
            raise
        if _is_file_of_server(pieces, environ):
            request.end()
            return pieces
        # Servers derive the length of the content from the number of pieces, where there is one.
        return (
            _SizedPieces(pieces, request)
            if hasattr(pieces, "__len__")
            else _Pieces(pieces, request)
        )

    def _report(self, environ: Environment, start_response: Any) -> Iterable[bytes]:
        accept = environ.get("HTTP_ACCEPT", "")
        method, query = environ.get("REQUEST_METHOD", "GET"), environ.get("QUERY_STRING", "")
        answered = answer(method, query, accept, self._service_level.report())
        start_response(answered.status, answered.headers)
        return [answered.body]


def _is_file_of_server(pieces: Iterable[bytes], environ: Environment) -> bool:
    """Whether the pieces are a file that the server sends by a call of the kernel, unless it is wrapped."""
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(wrapper, type) and isinstance(pieces, wrapper)


class _Pieces:
    """The pieces of a response. The request ends with the last one, or when the server closes them."""

    def __init__(self, pieces: Iterable[bytes], request: Request) -> None:
        self._pieces = pieces
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        finally:
            self._request.end()

    def close(self) -> None:
        try:
            close = getattr(self._pieces, "close", None)
            if close is not None:
                close()
        finally:
            self._request.end()


class _SizedPieces(_Pieces):
    """Pieces that are counted."""

    def __len__(self) -> int:
        return len(self._pieces)  # type: ignore[arg-type]
