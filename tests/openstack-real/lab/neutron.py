"""What Nova asks Neutron about servers without networks."""

import http.server
import json
import sys

GROUP = {'id': '00000000-0000-0000-0000-000000000001', 'name': 'default', 'security_group_rules': []}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self):
        self.rfile.read(int(self.headers.get('content-length') or 0))
        kind = self.path.split('?')[0].rstrip('/').removesuffix('.json').rsplit('/', 1)[-1].replace('-', '_')
        if '/quotas/' in self.path:
            answer = {'quota': {'port': -1, 'network': -1, 'security_group': -1, 'floatingip': -1}}
        elif kind in ('', 'v2.0'):
            answer = {'versions': [], 'resources': []}
        else:
            answer = {kind: [GROUP] if kind == 'security_groups' else []}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer


http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
