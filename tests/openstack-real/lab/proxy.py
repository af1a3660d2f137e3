"""Proxies that count requests, hold some back, or stand for a region that knows none of what is asked for.

Words are PORT:TARGET:NAME. Each request is a line of /run/lab/requests. The fault NAME-METHOD-WORD delays a request,
WORD being the end of its path. What is named `elsewhere` asks for other ids and names than those of the request.
"""

import http.client
import http.server
import re
import sys
import threading

from lab import faults

HOP = {'connection', 'keep-alive', 'transfer-encoding', 'content-length'}
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
NO_ID = '00000000-0000-4000-8000-000000000000'


def handler(target, name):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def forward(self):
            body = self.rfile.read(int(self.headers.get('content-length') or 0))
            path, _, query = self.path.partition('?')
            with open('/run/lab/requests', 'a') as log:
                log.write(f'{name} {self.command} {self.path}\n')
            faults.meet(f"{name}-{self.command}-{path.rsplit('/', 1)[-1]}")
            if name == 'elsewhere':
                path = UUID.sub(NO_ID, path)
                query = 'name=none' if query or path.endswith(('/servers', '/volumes', '/detail')) else ''
            headers = {key: value for key, value in self.headers.items() if key.lower() not in HOP}
            connection = http.client.HTTPConnection('127.0.0.1', target, timeout=600)
            connection.request(self.command, path + ('?' + query if query else ''), body or None, headers)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in HOP | {'date', 'server'}:
                    self.send_header(key, value)
            if answer.status != 204:
                self.send_header('content-length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = forward

        def send_response(self, code, message=None):
            self.send_response_only(code, message)
            self.send_header('date', self.date_time_string())

        def log_message(self, *_):
            pass

    return Handler


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


for word in sys.argv[1:]:
    port, target, name = word.split(':')
    server = Server(('127.0.0.1', int(port)), handler(int(target), name))
    threading.Thread(target=server.serve_forever).start()
