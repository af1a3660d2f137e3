"""What the sysfs of a node shows of a loop device."""

import os
import shutil


def show(view, device, serial):
    """Puts a directory with a serial, as virtio-blk shows it, in the place of a link to the kernel's."""
    link, new = os.path.join(view, device), os.path.join(view, f'.{device}')
    kernel = os.readlink(link)
    os.mkdir(new)
    for name in os.listdir(os.path.join('/sys/block', device)):
        os.symlink(os.path.join(kernel, name), os.path.join(new, name))
    with open(os.path.join(new, 'serial'), 'w') as file:
        file.write(serial)
    os.unlink(link)
    os.rename(new, link)


def hide(view, device):
    shown = os.path.join(view, device)
    if not os.path.islink(shown):
        kernel = os.path.dirname(os.readlink(os.path.join(shown, 'dev')))
        shutil.rmtree(shown)
        os.symlink(kernel, shown)
