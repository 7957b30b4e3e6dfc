"""Applications that serve less under overload: a service level, and what measures and publishes it.

A request has a mandatory part and an optional one, such as recommendations. The **service level** is the
probability that the optional part is served. A controller keeps the longest latency near a deadline by the
level::

    from tailbound.service_level import ServiceLevel, WsgiMiddleware

    application = WsgiMiddleware(application, ServiceLevel(deadline="1s"))

The application asks ``environ["tailbound.optional"]`` (in ASGI ``scope["tailbound"]["optional"]``) whether
to serve the optional part, and ``GET /tailbound/service-level`` answers with the :class:`Report`.

- :class:`ServiceLevel`: the level of this process, for threads and asyncio, with other workers where wanted
- :class:`WsgiMiddleware`, :class:`AsgiMiddleware`: around an application
- :class:`Controller`, :class:`Settings`: the rule alone, pure, with times as arguments
- :mod:`tailbound.service_level.simulation`: an overload played without a server

This folder needs nothing but the standard library of Python 3.9: an application without the rest of the
package can have a copy of it. The report is described in docs/reference/service-level-interface.md, and
the filter for Java passes the same scenarios.
"""

from ._asgi import AsgiMiddleware
from ._controller import Controller, next_level
from ._report import Report
from ._service_level import Request, ServiceLevel
from ._settings import Settings
from ._wsgi import WsgiMiddleware

__all__ = [
    "AsgiMiddleware",
    "Controller",
    "Report",
    "Request",
    "ServiceLevel",
    "Settings",
    "WsgiMiddleware",
    "next_level",
]
