"""Plays the scenarios: play.py [SCENARIO...]"""

import sys
import time
import traceback

from lab import lab
from lab.scenarios import ALL

wanted = sys.argv[1:]
unknown = [name for name in wanted if name not in ALL]
if unknown:
    print(f"openstack: there is no scenario {unknown[0]}; there are: {' '.join(ALL)}\n\n0 passed, 1 failed, 0 skipped")
    sys.exit(2)
lab.wait_until_ready()
lab.Lab().put_back()
rows, failed, began_all = [], 0, time.monotonic()
for name, scenario in ALL.items():
    if wanted and name not in wanted:
        continue
    print(f'\n--- {name}: {scenario.__doc__}')
    began, place = time.monotonic(), lab.Lab()
    try:
        scenario(place)
        word = 'passed'
    except lab.Failed as failure:
        word = 'FAILED'
        print(f'  {failure}')
    except Exception:
        word = 'FAILED'
        traceback.print_exc(file=sys.stdout)
    try:
        place.put_back()
    except Exception:
        word = 'FAILED'
        traceback.print_exc(file=sys.stdout)
    failed += word == 'FAILED'
    took = time.monotonic() - began
    print(f'  {word}  {took:.0f} s')
    rows.append(f'{word:8} {name:20} {took:4.0f} s  {scenario.__doc__}')
print('\n' + '\n'.join(rows))
if lab.FIGURES:
    print(f"\n{'what':44} requests  seconds")
for what, requests, seconds in lab.FIGURES:
    print(f"{what:44} {requests:>8}  {f'{seconds:.2f}' if seconds else ''}")
print(f'\nall of it took {time.monotonic() - began_all:.0f} s\n\n{len(rows) - failed} passed, {failed} failed, 0 skipped')
sys.exit(1 if failed else 0)
