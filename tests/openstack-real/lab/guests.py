"""A driver of Nova's compute service without guests: an attached volume is a loop device of this machine.

The sysfs of the node that a server stands for then has a serial for it. VIEWS/<server> names that node.
"""

import os
import subprocess

from nova.compute import power_state
from nova.virt import fake

from lab import faults, views

VIEWS = '/var/lab/guests'


def _losetup(*arguments):
    return subprocess.run(['losetup', *arguments], text=True, capture_output=True, check=True).stdout


def _view(server):
    """The block devices in the sysfs of a server's node; None if the server stands for none."""
    try:
        with open(os.path.join(VIEWS, server)) as file:
            return os.path.join('/nodes', file.read())
    except FileNotFoundError:
        return None


class LoopDriver(fake.FakeDriver):

    # Its parent forgets all servers when it is started again.
    def _recall(self, instance):
        if instance.uuid not in self.instances:
            self.instances[instance.uuid] = fake.FakeInstance(
                instance.name, instance.power_state or power_state.RUNNING, instance.uuid)

    def get_info(self, instance, use_cache=True):
        if instance.vm_state not in ('building', 'shelved_offloaded', 'deleted'):
            self._recall(instance)
        return super().get_info(instance, use_cache=use_cache)

    def power_off(self, instance, timeout=0, retry_interval=0):
        self._recall(instance)
        super().power_off(instance, timeout, retry_interval)

    def power_on(self, context, instance, *arguments, **more):
        self._recall(instance)
        super().power_on(context, instance, *arguments, **more)

    def snapshot(self, context, instance, *arguments, **more):
        self._recall(instance)
        super().snapshot(context, instance, *arguments, **more)

    def destroy(self, context, instance, *arguments, **more):
        self._recall(instance)
        super().destroy(context, instance, *arguments, **more)

    def cleanup(self, context, instance, network_info, block_device_info=None, *arguments, **more):
        for mapping in (block_device_info or {}).get('block_device_mapping', []):
            if mapping.get('connection_info'):
                self._unplug(mapping['connection_info'], instance.uuid)

    def attach_volume(self, context, connection_info, instance, mountpoint, *arguments, **more):
        faults.meet('nova-attach')
        volume, path = connection_info['data']['volume'], connection_info['data']['path']
        device = os.path.basename(_losetup('--find', '--show', path).strip())
        if view := _view(instance.uuid):
            views.show(view, device, volume[:20])
        with open(os.path.join(VIEWS, f'{instance.uuid}.{volume}'), 'w') as file:
            file.write(device)
        super().attach_volume(context, connection_info, instance, mountpoint, *arguments, **more)

    def detach_volume(self, context, connection_info, instance, mountpoint, *arguments, **more):
        faults.meet('nova-detach')
        self._unplug(connection_info, instance.uuid)
        super().detach_volume(context, connection_info, instance, mountpoint, *arguments, **more)

    @staticmethod
    def _unplug(connection_info, server):
        note = os.path.join(VIEWS, f"{server}.{connection_info['data']['volume']}")
        try:
            with open(note) as file:
                device = file.read()
        except FileNotFoundError:
            return
        if view := _view(server):
            views.hide(view, device)
        _losetup('--detach', os.path.join('/dev', device))
        os.unlink(note)

    def extend_volume(self, context, connection_info, instance, requested_size):
        with open(os.path.join(VIEWS, f"{instance.uuid}.{connection_info['data']['volume']}")) as file:
            _losetup('--set-capacity', os.path.join('/dev', file.read()))
