"""Writes the configuration of the host's nginx: every core behind one port, and each core by its own prefix.

python3 nginx_config.py --cores 12 --max-body-bytes 1000000 --max-timeout-ms 60000 >nginx.conf

Standard library and Python 3.9: it runs on the host, with the host's Python.
"""

from __future__ import annotations

import argparse
import json

BASE_PORT = 8081  # model_code/serving/neuron_cores.py: a server listens on 8081 + its core

TEMPLATE = """\
# Made by nginx_config.py.
daemon off;
worker_processes @WORKERS@;
error_log stderr warn;
pid @STATE@/nginx.pid;
# Requests in progress may end when nginx is stopped gently.
worker_shutdown_timeout @READ@s;
events { worker_connections 4096; }

http {
  access_log off;  # the servers log every request
  server_tokens off;
  default_type application/json;
  client_body_temp_path @STATE@/client_body;
  proxy_temp_path @STATE@/proxy;
  fastcgi_temp_path @STATE@/fastcgi;
  uwsgi_temp_path @STATE@/uwsgi;
  scgi_temp_path @STATE@/scgi;

  # The request's id in the caller's, this proxy's and the server's words; the server takes the same characters.
  map $http_x_request_id $id {
    "~^[A-Za-z0-9._:/=+-]{1,128}$" $http_x_request_id;
    default $request_id;
  }

  # A server's port is open only while its models answer, so a refused connection is the one sign of a core that is
  # away. It is left alone for a second, and its requests go to the others: they were never sent.
  upstream all_cores {
    zone all_cores 128k;
    least_conn;
@SERVERS@
    keepalive 64;
  }
@UPSTREAMS@
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $host;
  proxy_set_header X-Request-Id $id;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_connect_timeout 2s;
  proxy_send_timeout 30s;
  # Longer than a request may take: a server answers 504 itself, and a request that runs is never sent again for that.
  proxy_read_timeout @READ@s;
  # nginx passes a POST on only when nothing of it was sent (no non_idempotent here): never is one run twice.
  proxy_next_upstream error timeout;
  proxy_next_upstream_timeout 10s;

  server {
    listen @LISTEN@ backlog=4096;
    # Longer than a load balancer keeps idle connections (70 s), so it is never this side that closes one in use.
    keepalive_timeout 75s;
    client_header_timeout 15s;
    client_body_timeout 30s;
    client_max_body_size @BODY@;
    client_body_buffer_size 256k;
    # GET requests bring their context in the query; an Application Load Balancer lets 16 KiB of a line through.
    large_client_header_buffers 4 32k;

    # Not named locations: a request line that could not be read has no path, and would not get there.
    error_page 400 /-/bad_request;
    error_page 413 /-/too_large;
    error_page 414 /-/too_long;
    error_page 502 /-/gone;
    error_page 504 /-/late;
    location = /-/bad_request { internal; @ID@ return 400 '@BAD_REQUEST@'; }
    location = /-/too_large { internal; @ID@ return 413 '@TOO_LARGE@'; }
    location = /-/too_long { internal; @ID@ return 414 '@TOO_LONG@'; }
    location = /-/gone { internal; @ID@ add_header Retry-After 1 always; return 502 '@GONE@'; }
    location = /-/late { internal; @ID@ return 504 '@LATE@'; }

    # Of this proxy only; /readyz says whether a core answers.
    location = /healthz { return 200 '{"status":"ok"}'; }
    location = /readyz {
      proxy_pass http://all_cores;
      proxy_next_upstream error timeout http_503;
    }
    location = /cores { return 200 '@CORES@'; }
    location / { proxy_pass http://all_cores; }
@LOCATIONS@
    location /cores/ { @ID@ return 404 '@UNKNOWN@'; }
    location /predictions_neuron_core_ { @ID@ return 404 '@UNKNOWN@'; }
  }
}
"""

UPSTREAM = """\
  upstream core_@CORE@ {
    server 127.0.0.1:@PORT@ max_fails=0;
    keepalive 16;
  }
"""

LOCATION = """\
    location ^~ /predictions_neuron_core_@CORE@/ { proxy_pass http://core_@CORE@; }
    location ^~ /cores/@CORE@/ { proxy_pass http://core_@CORE@/; }
"""


def render(*, ports: list[int], listen: str, state: str, max_body_bytes: int, max_timeout_ms: int) -> str:
    """The configuration.

    :param ports: the port of core 0, 1, …, each on 127.0.0.1
    :param listen: address:port or port of this proxy
    :param state: an absolute folder that nginx may write to
    :param max_body_bytes: larger bodies are refused, as the servers would
    :param max_timeout_ms: the longest that a server may take for a request
    """
    there = "core 0" if len(ports) == 1 else f"cores 0 to {len(ports) - 1}"
    values = {
        # Not "auto", one for each of up to 192 vCPUs: a few MB each, and the container has half a GiB.
        "WORKERS": str(max(2, len(ports))),
        "STATE": state,
        "LISTEN": listen,
        "READ": str(-(-max_timeout_ms // 1000) + 5),
        "BODY": str(max_body_bytes),
        "SERVERS": "\n".join(f"    server 127.0.0.1:{port} max_fails=1 fail_timeout=1s;" for port in ports),
        "UPSTREAMS": "".join(_filled(UPSTREAM, CORE=str(core), PORT=str(port)) for core, port in enumerate(ports)),
        "LOCATIONS": "".join(_filled(LOCATION, CORE=str(core)) for core in range(len(ports))).rstrip("\n"),
        "CORES": json.dumps({"cores": list(range(len(ports)))}),
        "BAD_REQUEST": _error("This is no HTTP request that can be read."),
        "TOO_LARGE": _error(f"The body has more than {max_body_bytes} bytes."),
        "TOO_LONG": _error("The request line is too long: send the context with POST /predict."),
        "GONE": _error("The server of this core ended or is starting; try again."),
        "LATE": _error("The server of this core does not answer."),
        "UNKNOWN": _error(f"There is no such core here: this host has {there}."),
        "ID": "add_header X-Request-Id $id always;",
    }
    return _filled(TEMPLATE, **values)


def _filled(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _error(sentence: str) -> str:
    body: dict[str, str] = {"error": sentence, "request_id": "$id"}
    return json.dumps(body)


def main() -> None:
    """Print the configuration that the command line describes."""
    parser = argparse.ArgumentParser(description="Print the nginx configuration of an Inferentia host.")
    parser.add_argument("--cores", type=int, help="how many: servers on ports 8081, 8082, …")
    parser.add_argument("--ports", type=int, nargs="+", help="instead: the servers' ports")
    parser.add_argument("--listen", default="8080", help="port, or address:port")
    parser.add_argument("--state", default="/tmp", help="a folder that nginx may write to")  # noqa: S108
    parser.add_argument("--max-body-bytes", type=int, default=1_000_000)
    parser.add_argument("--max-timeout-ms", type=int, default=60_000)
    given = parser.parse_args()
    ports = given.ports or [BASE_PORT + core for core in range(given.cores or 0)]
    if not ports:
        parser.error("give --cores or --ports")
    print(
        render(
            ports=ports,
            listen=given.listen,
            state=given.state,
            max_body_bytes=given.max_body_bytes,
            max_timeout_ms=given.max_timeout_ms,
        ),
        end="",
    )


if __name__ == "__main__":
    main()
