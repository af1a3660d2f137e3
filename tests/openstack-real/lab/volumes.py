"""A back end of Cinder: a volume is a sparse file."""

import os

from cinder import interface
from cinder.volume import driver

from lab import faults

DIRECTORY = '/var/lab/volumes'


@interface.volumedriver
class FileDriver(driver.VolumeDriver):
    VERSION = '1'

    @staticmethod
    def _path(volume):
        return os.path.join(DIRECTORY, volume['id'])

    def check_for_setup_error(self):
        pass

    def get_volume_stats(self, refresh=False):
        return {'volume_backend_name': 'files', 'vendor_name': 'lab', 'driver_version': self.VERSION,
                'storage_protocol': 'file', 'total_capacity_gb': 10000, 'free_capacity_gb': 9000,
                'reserved_percentage': 0, 'multiattach': True, 'online_extend_support': True,
                'thin_provisioning_support': True, 'max_over_subscription_ratio': 20}

    def create_volume(self, volume):
        with open(self._path(volume), 'wb') as file:
            file.truncate(volume['size'] << 30)

    def delete_volume(self, volume):
        if os.path.exists(self._path(volume)):
            os.unlink(self._path(volume))

    def extend_volume(self, volume, new_size):
        os.truncate(self._path(volume), new_size << 30)

    def initialize_connection(self, volume, connector):
        faults.meet('cinder-connect')
        return {'driver_volume_type': 'local', 'data': {'path': self._path(volume), 'volume': volume['id']}}

    def terminate_connection(self, volume, connector, **kwargs):
        faults.meet('cinder-disconnect')

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass
