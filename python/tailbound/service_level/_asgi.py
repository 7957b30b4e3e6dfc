"""The middleware of ASGI applications."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, MutableMapping, Optional, Sequence

from ._report import answer
from ._request_rules import REPORT_PATH, RequestRules, wall_clock_ns
from ._service_level import ServiceLevel

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiMiddleware:
    """Times each HTTP request of an application until its last message of the body is sent, and answers
    for the report. Other connections, such as WebSockets, pass.

    ``scope["tailbound"]["optional"]`` says whether the request's optional content is served. The arguments
    are those of :class:`WsgiMiddleware`.
    """

    def __init__(
        self,
        app: AsgiApplication,
        service_level: ServiceLevel,
        *,
        path: Optional[str] = REPORT_PATH,
        untimed: Sequence[str] = (),
        start_header: Optional[str] = None,
        wall_clock: Callable[[], int] = wall_clock_ns,
    ) -> None:
        self._app = app
        self._service_level = service_level
        self._rules = RequestRules(path, untimed, start_header, wall_clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = _path(scope)
        if path == self._rules.path:
            return await self._report(scope, send)
        if not self._rules.is_timed(path):
            return await self._app({**scope, "tailbound": {"optional": True}}, receive, send)
        started = _header(scope, self._rules.start_header)
        with self._service_level.request(self._rules.waited_ns(started)) as request:

            async def send_timed(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    request.end()

            decision = {"optional": request.optional}
            await self._app({**scope, "tailbound": decision}, receive, send_timed)

    async def _report(self, scope: Scope, send: Send) -> None:
        query = scope.get("query_string", b"").decode("latin-1")
        accept = _header(scope, "accept") or ""
        answered = answer(scope["method"], query, accept, self._service_level.report())
        headers = [(name.lower().encode(), value.encode()) for name, value in answered.headers]
        status = int(answered.status.split()[0])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answered.body})


def _path(scope: Scope) -> str:
    """The path below the place of the application. Servers disagree on whether ``path`` has that place."""
    path, mounted = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(mounted) :] if mounted and path.startswith(mounted + "/") else path


def _header(scope: Scope, name: Optional[str]) -> Optional[str]:
    """The value of a header; several are joined as HTTP says."""
    if name is None:
        return None
    wanted = name.lower().encode("latin-1")
    values = [
        value.decode("latin-1") for key, value in scope.get("headers", ()) if key.lower() == wanted
    ]
    return ", ".join(values) or None
