"""Does the web process of this container answer? For Docker; exit status 0 or 1.

It asks with a host name that the site answers to, which 127.0.0.1 in a container is not.
"""

from __future__ import annotations

import http.client
import os
import sys

host = os.environ.get("ALLOWED_HOSTS", "localhost").split(",")[0].strip().lstrip("*.")
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("PORT", "8000")), timeout=2)
try:
    connection.request("GET", "/healthz", headers={"Host": host or "localhost"})
    sys.exit(connection.getresponse().status != 200)
except OSError as exc:
    sys.exit(f"no answer: {exc}")
