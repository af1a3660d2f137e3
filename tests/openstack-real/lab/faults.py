"""Faults that a scenario asks for, as files: NAME.delay has seconds, NAME.fail a message."""

import os
import time

DIRECTORY = '/var/lab/faults'


def _read(name):
    try:
        with open(os.path.join(DIRECTORY, name)) as file:
            return file.read()
    except FileNotFoundError:
        return None


def meet(name, sleep=time.sleep):
    """Waits, or fails, if that was asked for at this point."""
    if delay := _read(name + '.delay'):
        sleep(float(delay))
    if message := _read(name + '.fail'):
        raise RuntimeError(message)
