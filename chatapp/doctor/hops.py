"""Who stands between, by what it says of itself, and which line of its configuration to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatapp.doctor.observed import Flow

APPLICATION: Final = "the application"
UNNAMED: Final = "a proxy that does not say its name (HAProxy and most load balancers do not)"
_OWN_SERVERS: Final = ("uvicorn", "daphne", "hypercorn")
_SERVERS: Final = {
    "nginx": "nginx",
    "openresty": "nginx",
    "caddy": "Caddy",
    "cloudflare": "Cloudflare",
    "apache": "Apache",
    "envoy": "Envoy",
    "awselb": "AWS load balancer",
    "litespeed": "LiteSpeed",
    "google frontend": "Google front end",
    "microsoft-iis": "IIS",
}
_TELLING: Final = {
    "cf-ray": "Cloudflare",
    "x-amz-cf-id": "CloudFront",
    "x-varnish": "Varnish",
    "x-fastly-request-id": "Fastly",
    "x-envoy-upstream-service-time": "Envoy",
    "fly-request-id": "Fly",
    "x-azure-ref": "Azure Front Door",
}

_OF_NGINX: Final = {
    "buffers": "in the location: proxy_buffering off;",
    "buffers_when_bare": "in the location: proxy_buffering off;",
    "compressed": "in the location: gzip off; (or take text/event-stream out of gzip_types)",
    "idle_timeout": "in the location: proxy_read_timeout {safe_s:.0f}s;",
    "six_connections": "in the server: listen 443 ssl http2;",
    "http10": 'in the location: proxy_http_version 1.1; proxy_set_header Connection "";',
    "leave_unnoticed": "in the location: proxy_ignore_client_abort off;",
    "headers": "in the location: no proxy_hide_header, expires or add_header for Cache-Control "
    "and Content-Type",
}
_OF_CADDY: Final = {
    "compressed": "encode with a matcher that leaves out text/event-stream",
    "idle_timeout": "in reverse_proxy: transport http { read_timeout {safe_s:.0f}s }",
    "leave_unnoticed": "in reverse_proxy: no flush_interval -1, which lets requests go on",
    "six_connections": "serve it by https://: Caddy speaks HTTP/2 there by itself",
}
_OF_ANY: Final = {
    "buffers": "turn response buffering off for this site (nginx: proxy_buffering off; "
    "Varnish: set beresp.do_stream = true)",
    "buffers_when_bare": "turn response buffering off for this site",
    "compressed": "leave text/event-stream out of what is compressed (HAProxy: compression type; "
    "nginx: gzip off;)",
    "idle_timeout": "raise its idle timeout to {safe_s:.0f} s (HAProxy: timeout client and "
    "timeout server), or set RELAY_HEARTBEAT_S below it",
    "six_connections": "serve it by https:// with HTTP/2 (HAProxy: bind :443 ssl crt … alpn "
    "h2,http/1.1; nginx: listen 443 ssl http2;)",
    "http10": "let it speak HTTP/1.1 to this server",
    "leave_unnoticed": "let it close its own request when its client is gone (HAProxy: option "
    "abortonclose; nginx: proxy_ignore_client_abort off;)",
    "headers": "let it pass Content-Type and Cache-Control on as they are",
    "clock_skew": "run an NTP client on both machines",
    "slow_first_byte": "compare with --direct, then look at the proxy's and this server's load",
    "cut": "look at the log of whoever cut it: a limit of time or size per response",
}
_OF_APPLICATION: Final = {
    "buffers": "look for an ASGI middleware around chatapp.asgi that collects what is sent",
    "compressed": "leave streams out of compression: no GZipMiddleware around them",
    "headers": "look for a middleware that changes Content-Type or Cache-Control",
    "idle_timeout": "look for a limit of time around chatapp.asgi, or set RELAY_HEARTBEAT_S "
    "below it",
    "leave_unnoticed": "look for an ASGI middleware that keeps http.disconnect for itself",
    "unexamined": "examine again when the server is less busy",
}
_ADVICE: Final = {"nginx": _OF_NGINX, "Caddy": _OF_CADDY, APPLICATION: _OF_APPLICATION}


def name_of(flow: Flow) -> str:
    """The hop that answered. APPLICATION where nothing says that there is any other."""
    for header, name in _TELLING.items():
        if header in flow.headers:
            return name
    server = flow.headers.get("server", "").lower()
    for word, name in _SERVERS.items():
        if word in server:
            return name
    if via := flow.headers.get("via"):
        return f"a proxy that calls itself {via[:60]!r}"
    if server and not any(own in server for own in _OWN_SERVERS):
        return f"a server that calls itself {server[:60]!r}"
    if flow.hello.get("forwarded") or flow.hello.get("via"):
        return UNNAMED
    return APPLICATION


def advice(code: str, hop: str, values: Mapping[str, float]) -> str:
    """The line to change; "" where there is nothing to be done."""
    text = _ADVICE.get(hop, {}).get(code) or _OF_ANY.get(code, "")
    for name, value in values.items():  # braces of Caddy's are not ours
        text = text.replace(f"{{{name}:.0f}}", f"{value:.0f}")
    return text
