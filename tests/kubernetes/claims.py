#!/usr/bin/python3
"""Stands before the API server, and answers some reads of claims with 500.

claims.py ADDRESS PORT API-PORT TOKEN RULES

It serves plain HTTP and hands everything on, but for the claims that the file RULES names: a line has a
claim's name and how many of a hundred reads of it fail. The file is read anew for each claim.
"""
import http.client
import http.server
import json
import random
import re
import ssl
import sys

address, port, api_port, token, rules = sys.argv[1:]
claim_read = re.compile(r"^/api/v1/namespaces/[^/]+/persistentvolumeclaims/([^/?]+)(\?|$)")
# What belongs to one connection, and not to the message.
of_the_connection = {"connection", "transfer-encoding", "content-length", "keep-alive", "host", "authorization"}
trusting = ssl.create_default_context()
trusting.check_hostname = False
trusting.verify_mode = ssl.CERT_NONE


def fails(claim):
    """Whether this read of the claim is to fail."""
    with open(rules, encoding="utf-8") as lines:
        percent = dict(line.split() for line in lines).get(claim, "0")
    return random.random() * 100 < float(percent)


class Relay(http.server.BaseHTTPRequestHandler):
    """One connection of a client's."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """The API server has a log of its own."""

    def hand_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        claim = claim_read.match(self.path)
        if self.command == "GET" and claim and fails(claim.group(1)):
            self.refuse(claim.group(1))
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in of_the_connection}
        headers["Authorization"] = f"Bearer {token}"
        api = http.client.HTTPSConnection(address, int(api_port), context=trusting)
        try:
            api.request(self.command, self.path, body or None, headers)
            answer = api.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in of_the_connection:
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            # A watch's events are handed on as they come.
            while piece := answer.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            api.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = hand_on

    def refuse(self, claim):
        print("500", claim, flush=True)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500}
        text = json.dumps(status | {"reason": "InternalError", "message": "etcdserver: request timed out"}).encode()
        self.send_response_only(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Server(http.server.ThreadingHTTPServer):
    """All connections."""

    request_queue_size = 128
    daemon_threads = True


Server((address, int(port)), Relay).serve_forever()
