"""nova-compute with the driver beside this file: Nova loads drivers below nova.virt alone."""

import nova.monkey_patch  # noqa: F401, comes before all else
import sys

from nova.cmd.compute import main

import lab
import lab.guests

sys.modules['nova.virt.lab'] = lab
sys.modules['nova.virt.lab.guests'] = lab.guests
main()
