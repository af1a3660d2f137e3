#!/usr/bin/env python3
"""What Helm makes of a chart: helm.py LIBRARY CHART VALUES.json

No package has the program, but one of PyPI (helm-sdkpy) has Helm's own code as a library, with `lint` and `install`
and without `template`. So the chart is installed into something that answers as an API server does, and keeps what it
is sent: that is printed, as one list.
"""

import ctypes
import gzip
import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = {
    "v1": {"configmaps": "ConfigMap", "secrets": "Secret"},
    "apps/v1": {"daemonsets": "DaemonSet"},
}
made = []


def resources(group):
    verbs = ["create", "get", "list", "patch", "update"]
    one = {"singularName": "", "namespaced": True, "verbs": verbs}
    all_of_it = [dict(one, name=name, kind=kind) for name, kind in KINDS[group].items()]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": all_of_it}


APPS = {"groupVersion": "apps/v1", "version": "v1"}
PAGES = {
    "/version": {"major": "1", "minor": "20", "gitVersion": "v1.20.2"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": resources("v1"),
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "apps", "versions": [APPS], "preferredVersion": APPS}],
    },
    "/apis/apps/v1": resources("apps/v1"),
}


class ApiServer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in PAGES:
            self.answer(PAGES[path])
        elif path.endswith("/secrets"):
            self.answer({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []})
        else:
            none = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            self.answer(none, 404)

    def do_POST(self):
        sent = self.received()
        # Its own record of the release comes in another form, and is no object of the chart.
        if not sent.startswith(b"{"):
            self.answer({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "release"}}, 201)
            return
        made.append(json.loads(sent))
        self.answer(made[-1], 201)

    def do_PUT(self):
        self.received()
        self.answer({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "release"}})

    def received(self):
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        return gzip.decompress(sent) if self.headers.get("Content-Encoding") == "gzip" else sent


def main(library, chart, values):
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = "http://127.0.0.1:%d" % server.server_address[1]
    helm = ctypes.CDLL(library)
    helm.helm_sdkpy_last_error.restype = ctypes.c_char_p
    handle, said = ctypes.c_ulonglong(), ctypes.c_char_p()

    def call(word, *words):
        words = [word_.encode() if isinstance(word_, str) else word_ for word_ in words]
        if getattr(helm, "helm_sdkpy_" + word)(*words):
            sys.exit("%s: %s" % (word, (helm.helm_sdkpy_last_error() or b"").decode()))
        return (said.value or b"").decode()

    with tempfile.NamedTemporaryFile("w") as config:
        json.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [{"name": "x", "cluster": {"server": address}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "users": [{"name": "x", "user": {}}],
            },
            config,
        )
        config.flush()
        call("config_create", "kube-system", config.name, "x", "{}", ctypes.byref(handle))
        linted = json.loads(call("lint", handle, chart, ctypes.byref(said)))
        # 1 is advice, 2 a warning, 3 an error.
        if linted["Errors"] or any(one["Severity"] > 1 for one in linted["Messages"] or []):
            sys.exit("lint: %s" % linted)
        options = json.dumps({"wait": False, "timeout_seconds": 30, "server_side_apply": "false"})
        with open(values, encoding="utf-8") as file:
            call("install", handle, "incloud-disk", chart, file.read(), "", options, ctypes.byref(said))
    print(json.dumps(made))


main(*sys.argv[1:4])
