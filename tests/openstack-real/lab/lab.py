"""What a scenario has: the cloud, nodes, faults, and the checks that it makes."""

import contextlib
import glob
import json
import os
import subprocess
import time

from lab import cloud, views
from lab.cloud import Cloud, sql
from lab.node import MOUNTS, Node, Pv

# Rows of the last table: what, how many requests, seconds.
FIGURES = []
SERVICES = os.environ.get('SERVICES', '')
ROOT = os.path.join(os.environ.get('SCRATCH', ''), 'root')


class Failed(Exception):
    pass


def check(holds, what, seen=''):
    if not holds:
        raise Failed(f"not so: {what}{f'; seen: {seen}' if seen != '' else ''}")
    print(f'  {what}')


def _among_services(*command):
    subprocess.run(['nsenter', f'--mount=/proc/{SERVICES}/ns/mnt', f'--pid=/proc/{SERVICES}/ns/pid_for_children',
                    '--', 'chroot', ROOT, *command], check=True)


def signal(name, service):
    with open(f'/run/lab/{service}.pid') as file:
        _among_services('kill', f'-{name}', '--', '-' + file.read().strip())


@contextlib.contextmanager
def frozen(*services):
    for service in services:
        signal('STOP', service)
    try:
        yield
    finally:
        for service in services:
            signal('CONT', service)


def kill(service):
    signal('KILL', service)


def start(service):
    _among_services('bash', '/suite/services.sh', 'start', service)


def fault(name, text):
    with open(os.path.join(cloud.FAULTS, name), 'w') as file:
        file.write(str(text))


def no_faults():
    for path in glob.glob(os.path.join(cloud.FAULTS, '*')):
        os.unlink(path)


def wait_until_ready():
    """The schedulers do not know the capacities at once: plays what a scenario needs until it works."""
    demo, end = Cloud('demo', 'demo'), time.monotonic() + 180
    with open('/var/lab/seed.json') as file:
        server = json.load(file)['node-a']
    while True:
        try:
            volume = demo.make_volume('first')
            demo.do('nova', 'POST', f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
            cloud.wait(30, lambda: demo.volume(volume)['status'] == 'in-use', 'the first volume is attached')
            return
        except cloud.Refused as refusal:
            if time.monotonic() > end:
                raise
            print(f'  not ready yet: {refusal}')
            time.sleep(2)


class Lab:
    def __init__(self):
        with open('/var/lab/seed.json') as file:
            self.seed = json.load(file)
        self.servers = {name: self.seed[name] for name in ('node-a', 'node-b')}
        for name, server in self.servers.items():
            self.show_disks(server, name)
        self.admin, self.demo = Cloud('admin', 'admin'), Cloud('demo', 'demo')
        self.nodes, self.spare = [], []

    @staticmethod
    def show_disks(server, node):
        with open(f'/var/lab/guests/{server}', 'w') as file:
            file.write(node)

    def node(self, name, **more):
        node = Node(name, self.servers, **more)
        self.nodes.append(node)
        return node

    def controller(self, **more):
        """A host that is no server and remembers nothing."""
        return self.node('controller', host='node-b', **more)

    def pv(self, fs_type='ext4', **more):
        return Pv(self.demo.make_volume('scenario', **more), fs_type)

    def spare_server(self, node):
        """A server that a scenario may break; it stands for a node from now on."""
        server = self.demo.make_server(f'spare-{len(self.spare)}', self.seed['image'])
        self.spare.append(server)
        self.servers[node] = server
        self.show_disks(server, node)
        return server

    def put_back(self):
        """Undoes all that a scenario did, by the databases where no request does."""
        no_faults()
        for node in self.nodes:
            if node.host == node.name:
                node.shell(f'for d in {node.folder}/{MOUNTS}/*; do umount "$d"; done 2>/dev/null')
        for server in self.spare:
            self.admin.ask('nova', 'POST', f'/servers/{server}/action', {'unlock': None})
            self.demo.ask('nova', 'DELETE', f'/servers/{server}')
        for server in (self.seed['node-a'], self.seed['node-b']):
            for volume in self.demo.mapped(server):
                self.demo.ask('nova', 'DELETE', f'/servers/{server}/os-volume_attachments/{volume}')
        end = time.monotonic() + 5
        while time.monotonic() < end and any(
                one['status'] != 'available' for one in self.demo.do('cinder', 'GET', '/volumes/detail')['volumes']):
            time.sleep(0.5)
        sql('nova', 'update block_device_mapping set deleted = id, deleted_at = now() '
                    'where deleted = 0 and volume_id is not null')
        sql('cinder', "update volume_attachment set deleted = 1, deleted_at = now(), attach_status = 'detached' "
                      "where deleted = 0; update volumes set status = 'available', attach_status = 'detached', "
                      'migration_status = null where deleted = 0')
        for note in glob.glob('/var/lab/guests/*.*'):
            with open(note) as file:
                device = file.read()
            for view in glob.glob('/nodes/*'):
                views.hide(view, device)
            subprocess.run(['losetup', '--detach', f'/dev/{device}'], check=False)
            os.unlink(note)
        for volume in self.demo.do('cinder', 'GET', '/volumes')['volumes']:
            self.demo.ask('cinder', 'DELETE', f"/volumes/{volume['id']}")
