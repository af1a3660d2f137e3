"""The driver as kubelet and the controller-manager call it, on nodes that have a mount namespace each."""

import json
import os
import shutil
import subprocess
import time
import uuid

DRIVER = os.environ.get('DRIVER', '')
# As the nodes see it, and as this program does.
STATE, OWN_STATE = os.path.join(os.environ.get('SCRATCH', ''), 'state'), '/var/lab/state'

MOUNTS = 'kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts'

CONFIGURATION = '''
[cloud]
kind = "openstack"
[openstack]
auth_url = "http://127.0.0.1:{keystone}/v3"
username = "{user}"
password = "secret-of-{user}"
project_name = "{user}"
domain_name = "Default"
region = "{region}"
metadata_url = "none"
[openstack.limits]
per_second = 1000
burst = 1000
[node]
name = "{name}"
{server}
servers = {{ {servers} }}
[disks]
transports = ["loop"]
[paths]
state_dir = "{folder}/state"
run_dir = "{folder}/run"
log_dir = "{folder}/log"
[deadline]
attach = {deadline}
detach = {deadline}
isattached = 30
'''


class Answer:
    def __init__(self, status, text, seconds):
        self.status, self.text, self.seconds = status, text.strip(), seconds
        try:
            self.json = json.loads(self.text)
        except ValueError:
            self.json = {'status': 'no JSON', 'message': self.text}

    @property
    def is_success(self):
        return self.json.get('status') == 'Success'

    @property
    def message(self):
        return self.json.get('message', '')

    @property
    def attached(self):
        """What isattached says: yes, no, or None for a failure."""
        return self.json.get('attached') if self.is_success else None

    def __str__(self):
        return f'{self.text} ({self.seconds:.1f} s)'


class Node:
    """A host with a driver of its own that remembers nothing. One without a server is a controller-manager's."""

    def __init__(self, name, servers, *, host=None, region='RegionOne', user='demo', keystone=5000, deadline=60):
        self.name, self.host = name, host or name
        folder = f'{name}-{uuid.uuid4().hex[:8]}'
        self.folder, self.own_folder = os.path.join(STATE, folder), os.path.join(OWN_STATE, folder)
        os.makedirs(os.path.join(self.own_folder, MOUNTS))
        self.settings = dict(
            name=name, folder=self.folder, region=region, user=user, keystone=keystone, deadline=deadline,
            server=f'server_id = "{servers[name]}"' if name in servers else '',
            servers=', '.join(f'{node} = "{server}"' for node, server in servers.items() if node != name))
        self.configure()

    def configure(self, **changes):
        self.settings.update(changes)
        path = os.path.join(self.own_folder, 'config.toml')
        with open(path, 'w') as file:
            file.write(CONFIGURATION.format(**self.settings))
        os.chmod(path, 0o600)

    def forget(self):
        """As after a reboot with an empty disk."""
        for part in ('state', 'run'):
            shutil.rmtree(os.path.join(self.own_folder, part), ignore_errors=True)

    def run(self, *command):
        with open(f'/run/{self.host}.pid') as file:
            namespace = f'--mount=/proc/{file.read().strip()}/ns/mnt'
        return subprocess.Popen(
            ['nsenter', namespace, '--', *command], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root',
                 'INCLOUD_DISK_CONFIG': os.path.join(self.folder, 'config.toml')})

    def start(self, *words):
        return self.run(DRIVER, *words)

    def call(self, *words):
        began = time.monotonic()
        process = self.start(*words)
        out, _ = process.communicate()
        return Answer(process.returncode, out, time.monotonic() - began)

    # --- calls -----------------------------------------------------------------------------------

    def attach(self, pv, node=None):
        return self.call('attach', pv.options, node or self.name)

    def detach(self, pv, node=None):
        return self.call('detach', pv.name, node or self.name)

    def is_attached(self, pv, node=None):
        return self.call('isattached', pv.options, node or self.name)

    def stage(self, pv):
        return os.path.join(self.folder, MOUNTS, pv.name)

    def mount(self, pv):
        """waitforattach, mountdevice; what failed, else nothing."""
        answer = self.call('waitforattach', '', pv.options)
        if answer.is_success:
            answer = self.call('mountdevice', self.stage(pv), answer.json.get('device', ''), pv.options)
        return None if answer.is_success else answer

    def unmount(self, pv):
        return self.call('unmountdevice', self.stage(pv))

    def shell(self, command):
        process = self.run('sh', '-c', command)
        out, complaint = process.communicate()
        return out.strip() if process.returncode == 0 else f'status {process.returncode}: {complaint.strip()}'


class Pv:
    """A PersistentVolume of a volume; each has a name of its own."""

    def __init__(self, volume, fs_type='ext4'):
        self.volume, self.name = volume, f'pv-{uuid.uuid4().hex[:10]}'
        self.options = json.dumps({
            'kubernetes.io/fsType': fs_type, 'kubernetes.io/pvOrVolumeName': self.name,
            'kubernetes.io/readwrite': 'rw', 'volumeID': volume})
