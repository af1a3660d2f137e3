"""A client of the services for the suite itself: each answer is a status and what its JSON says."""

import http.client
import json
import subprocess
import time

PORTS = {'keystone': 5000, 'nova': 8774, 'cinder': 8776, 'glance': 9292}
FAULTS = '/var/lab/faults'


class Refused(Exception):
    pass


class Cloud:
    def __init__(self, user, project):
        self.user, self.project, self.token = user, None, None
        scope = {'project': {'name': project, 'domain': {'id': 'default'}}}
        identity = {'methods': ['password'], 'password': {'user': {
            'name': user, 'domain': {'id': 'default'}, 'password': f'secret-of-{user}'}}}
        self.login = {'auth': {'identity': identity, 'scope': scope}}
        self.renew()

    def renew(self):
        connection = http.client.HTTPConnection('127.0.0.1', PORTS['keystone'], timeout=120)
        connection.request('POST', '/v3/auth/tokens', json.dumps(self.login), {'content-type': 'application/json'})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 201:
            raise Refused(body)
        self.token, self.project = answer.getheader('x-subject-token'), body['token']['project']['id']
        self.user_id = body['token']['user']['id']

    def ask(self, service, method, path, body=None, version=None):
        path = {'keystone': '/v3', 'nova': '/v2.1', 'cinder': f'/v3/{self.project}', 'glance': '/v2'}[service] + path
        headers = {'x-auth-token': self.token, 'content-type': 'application/json'}
        if version:
            headers['openstack-api-version'] = f"{'volume' if service == 'cinder' else 'compute'} {version}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        elif body is not None:
            headers['content-type'] = 'application/octet-stream'
        connection = http.client.HTTPConnection('127.0.0.1', PORTS[service], timeout=300)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(text or b'{}')
        except ValueError:
            return answer.status, {'text': text.decode(errors='replace')[:300]}

    def do(self, service, method, path, body=None, version=None):
        """What must work."""
        status, answer = self.ask(service, method, path, body, version)
        if status >= 300:
            raise Refused(f'{method} {path}: {status} {answer}')
        return answer

    # --- volumes and servers ---------------------------------------------------------------------

    def make_volume(self, name, **more):
        volume = self.do('cinder', 'POST', '/volumes', {'volume': {'name': name, 'size': 1, **more}})['volume']['id']

        def is_made():
            status = self.volume(volume)['status']
            if status == 'error':
                raise Refused(f'volume {volume} could not be made')
            return status == 'available'
        wait(60, is_made, f'volume {volume} is available')
        return volume

    def volume(self, volume):
        """As Cinder has it; None if it has none."""
        status, answer = self.ask('cinder', 'GET', f'/volumes/{volume}')
        return answer['volume'] if status == 200 else None

    def attached_to(self, volume):
        """The servers that Cinder lists."""
        return sorted(one['server_id'] for one in (self.volume(volume) or {'attachments': []})['attachments'])

    def mapped(self, server):
        """The volumes that Nova maps."""
        status, answer = self.ask('nova', 'GET', f'/servers/{server}/os-volume_attachments')
        return [one['volumeId'] for one in answer['volumeAttachments']] if status == 200 else []

    def server(self, server):
        status, answer = self.ask('nova', 'GET', f'/servers/{server}')
        return answer['server'] if status == 200 else None

    def make_server(self, name, image, **more):
        server = self.do('nova', 'POST', '/servers', {'server': {
            'name': name, 'flavorRef': '1', 'imageRef': image, 'networks': 'none', **more}}, '2.79')['server']['id']
        self.wait_for_server(server, 'ACTIVE')
        return server

    def wait_for_server(self, server, status):
        def reached():
            now = self.server(server)
            if now['status'] == 'ERROR' != status:
                raise Refused(f"server {server}: {now.get('fault')}")
            return now['status'] == status and not now['OS-EXT-STS:task_state']
        wait(180, reached, f'server {server} is {status}')

    def act(self, server, action, value=None):
        self.do('nova', 'POST', f'/servers/{server}/action', {action: value})


def wait(seconds, condition, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Refused(f'not within {seconds} s: {what}')
        time.sleep(0.3)


def sql(database, statement):
    """For states that no request makes."""
    return subprocess.run(['mariadb', '--no-defaults', '--user', 'root', '--socket', '/run/lab/mysql.sock', '--batch',
                           '--skip-column-names', database, '--execute', statement],
                          check=True, text=True, capture_output=True).stdout
