"""The scenarios, in the order in which they are played."""

import concurrent.futures
import json
import random
import re
import time

from lab.cloud import sql, wait
from lab.lab import FIGURES, check, fault, frozen, kill, no_faults, start

ALL = {}
# Seconds that attach and detach of a disk take at a host, as in the project's own server (`bench cloud`).
HOT_PLUG = (0.95, 0.7)
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}')


def scenario(function):
    ALL[function.__name__.replace('_', '-')] = function
    return function


def life(lab, fs_type):
    node, pv = lab.node('node-a'), lab.pv(fs_type)
    for turn in (1, 2):
        answer = node.attach(pv)
        check(answer.is_success, f'attach {turn}', answer)
        check(lab.demo.attached_to(pv.volume) == [lab.servers['node-a']], 'Cinder lists the server')
        check(node.is_attached(pv).attached is True, 'isattached says yes')
        failure = node.mount(pv)
        check(failure is None, f'waitforattach and mountdevice {turn}', failure)
        if turn == 1:
            check(node.shell(f'findmnt -n -o FSTYPE {node.stage(pv)}') == fs_type, f'it is {fs_type}')
            node.shell(f'echo written >{node.stage(pv)}/file')
        else:
            check(node.shell(f'cat {node.stage(pv)}/file') == 'written', 'the data of before is there')
        answer = node.detach(pv)
        check(not answer.is_success, 'a detach of what is mounted is refused', answer)
        answer = node.unmount(pv)
        check(answer.is_success, f'unmountdevice {turn}', answer)
        answer = node.detach(pv)
        check(answer.is_success, f'detach {turn}', answer)
        check(lab.demo.volume(pv.volume)['status'] == 'available', 'Cinder has it free')
        check(node.is_attached(pv).attached is False, 'isattached says no')


@scenario
def life_ext4(lab):
    """attach to detach, twice: data is kept on ext4"""
    life(lab, 'ext4')


@scenario
def life_xfs(lab):
    """the same on xfs"""
    life(lab, 'xfs')


@scenario
def move(lab):
    """a volume moves from one node to another with its data"""
    a, b, pv = lab.node('node-a'), lab.node('node-b'), lab.pv()
    check(a.attach(pv).is_success, 'attached to node-a')
    check(a.mount(pv) is None, 'mounted there')
    a.shell(f'echo moved >{a.stage(pv)}/file')
    answer = b.attach(pv)
    check(not answer.is_success and 'node-a' in answer.message, 'node-b is refused, and told of node-a', answer)
    check(lab.demo.attached_to(pv.volume) == [lab.servers['node-a']], 'node-a keeps it')
    answer = lab.controller().detach(pv, 'node-a')
    check(not answer.is_success, 'another host does not detach what node-a has mounted', answer)
    check(a.unmount(pv).is_success, 'unmounted')
    answer = lab.controller().detach(pv, 'node-a')
    check(answer.is_success, 'then another host detaches it', answer)
    answer = b.attach(pv)
    check(answer.is_success, 'attached to node-b', answer)
    failure = b.mount(pv)
    check(failure is None, 'mounted there', failure)
    check(b.shell(f'cat {b.stage(pv)}/file') == 'moved', 'with the data')
    answer = a.is_attached(pv)
    check(answer.attached is False, 'node-a says no', answer)
    answer = a.detach(pv)
    check(answer.is_success and lab.demo.attached_to(pv.volume) == [lab.servers['node-b']],
          'a detach from node-a leaves it alone', answer)
    check(b.unmount(pv).is_success and b.detach(pv).is_success, 'unmounted and detached')


def all_at_once(calls):
    """Starts all, and waits for all; what failed, and how long it took."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        answers = [one.result() for one in [pool.submit(*call) for call in calls]]
    return [str(one) for one in answers if not one.is_success], time.monotonic() - began


@scenario
def parallel(lab):
    """40 attaches at once, then 40 detaches"""
    node = lab.node('node-a', deadline=180)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pvs = list(pool.map(lambda _: lab.pv(), range(40)))
    failures, seconds = all_at_once([(node.attach, pv) for pv in pvs])
    check(not failures, '40 attaches succeed', failures[:3])
    check(sorted(lab.demo.mapped(lab.servers['node-a'])) == sorted(pv.volume for pv in pvs), 'Nova maps them all')
    FIGURES.append(('40 attaches at once', '', seconds))
    failures, seconds = all_at_once([(node.detach, pv) for pv in pvs])
    check(not failures, '40 detaches succeed', failures[:3])
    check(not lab.demo.mapped(lab.servers['node-a']), 'Nova maps none')
    FIGURES.append(('40 detaches at once', '', seconds))


@scenario
def kills(lab):
    """30 calls killed at random moments: no untrue answer afterwards"""
    # After a killed attach a detach may wait for two minutes: the request may still come true.
    a, controller = lab.node('node-a', deadline=8), lab.controller(deadline=8)
    chance, pv = random.Random(), lab.pv()
    seed = chance.randrange(1 << 30)
    chance.seed(seed)
    print(f'  seed {seed}')
    server, wrong = lab.servers['node-a'], []
    for turn in range(30):
        call = a.start(*(('attach', pv.options, 'node-a') if turn % 2 == 0 else ('detach', pv.name, 'node-a')))
        time.sleep(chance.uniform(0, 1.5))
        call.kill()
        call.communicate()
        # Sometimes by a host that remembers nothing.
        asker = chance.choice((a, controller))
        answer = asker.is_attached(pv, 'node-a')
        if answer.attached is False:
            # It must also stay so.
            time.sleep(2)
            if pv.volume in lab.demo.mapped(server) or lab.demo.attached_to(pv.volume):
                wrong.append(f'turn {turn}: no, though it is attached')
        if chance.random() < 0.3:
            answer = asker.detach(pv, 'node-a')
            time.sleep(2)
            if answer.is_success and (pv.volume in lab.demo.mapped(server) or lab.demo.attached_to(pv.volume)):
                wrong.append(f'turn {turn}: detach succeeded, though it is attached')
    check(not wrong, 'no untrue answer', wrong)
    a.configure(deadline=180)
    answer = a.detach(pv)
    check(answer.is_success, 'a last detach succeeds', answer)
    check(lab.demo.volume(pv.volume)['status'] == 'available' and not lab.demo.mapped(server), 'all is free')


def while_frozen(lab, service):
    """Calls while a service is frozen; answers what the attach and the detach said."""
    node, pv, server = lab.node('node-a', deadline=14), lab.pv(), lab.servers['node-a']

    def is_attached():
        return pv.volume in lab.demo.mapped(server) and lab.demo.attached_to(pv.volume) == [server]

    with frozen(service):
        attach = node.attach(pv)
        print(f'  attach: {attach}')
        no = node.is_attached(pv).attached is False
    if attach.is_success:
        check(is_attached(), 'attached as attach said')
    else:
        time.sleep(5)
        check(not (no and lab.demo.mapped(server)), 'isattached did not say no to what came true')
    node.configure(deadline=60)
    answer = node.attach(pv)
    check(answer.is_success and is_attached(), 'attach succeeds when it goes on', answer)
    node.configure(deadline=14)
    with frozen(service):
        detach = node.detach(pv)
        print(f'  detach: {detach}')
        if detach.is_success:
            check(not lab.demo.attached_to(pv.volume), 'detached as detach said')
    node.configure(deadline=60)
    answer = node.detach(pv)
    check(answer.is_success and not is_attached(), 'detach succeeds when it goes on', answer)
    check(lab.demo.volume(pv.volume)['status'] == 'available', 'Cinder has it free')
    return attach, detach


@scenario
def frozen_compute(lab):
    """nova-compute stands still: the message blames Nova"""
    attach, detach = while_frozen(lab, 'nova-compute')
    check(not attach.is_success and 'Nova' in attach.message, 'attach blames Nova', attach)
    for answer in (attach, detach):
        check('Cinder at' not in answer.message, 'Cinder is not blamed', answer)


@scenario
def frozen_conductor(lab):
    """nova-conductor stands still"""
    while_frozen(lab, 'nova-conductor')


@scenario
def frozen_volume(lab):
    """cinder-volume stands still"""
    while_frozen(lab, 'cinder-volume')


@scenario
def failing(lab):
    """Nova and Cinder fail: no untrue answer, and all is well afterwards"""
    node, server = lab.node('node-a', deadline=30), lab.servers['node-a']
    for point in ('nova-attach', 'cinder-connect'):
        pv = lab.pv()
        fault(f'{point}.fail', 'broken on purpose')
        answer = node.attach(pv)
        check(not answer.is_success, f'{point} fails: so does attach', answer)
        no_faults()
        answer = node.attach(pv)
        check(answer.is_success and pv.volume in lab.demo.mapped(server), 'then attach succeeds', answer)
        answer = node.detach(pv)
        check(answer.is_success, 'and detach', answer)
    for point in ('nova-detach', 'cinder-disconnect'):
        pv = lab.pv()
        check(node.attach(pv).is_success, 'attached')
        fault(f'{point}.fail', 'broken on purpose')
        answer = node.detach(pv)
        free = lab.demo.volume(pv.volume)['status'] == 'available' and not lab.demo.mapped(server)
        check(answer.is_success == free, f'{point} fails: detach says what is so', answer)
        no_faults()
        answer = node.detach(pv)
        print(f"  then: {answer}; Cinder: {lab.demo.volume(pv.volume)['status']}")
        check(answer.is_success == (lab.demo.volume(pv.volume)['status'] == 'available'), 'and afterwards')


# --- answers that would free an attached volume ---------------------------------------------------


def not_freed(lab, pv, node, name='node-a'):
    """Neither isattached nor detach frees what is attached, whoever asks."""
    for host, asker in (('the host itself', node), ('a host that remembers nothing', lab.controller(**{
            key: node.settings[key] for key in ('user', 'region')}))):
        answer = asker.is_attached(pv, name)
        check(answer.attached is not False, f'{host}: isattached does not say no', answer)
        answer = asker.detach(pv, name)
        check(not answer.is_success, f'{host}: detach does not succeed', answer)
    check(lab.demo.attached_to(pv.volume) == [lab.servers[name]], 'it is still attached')


def out_of_sight(lab, wrong, right):
    """A configuration that shows neither server nor volume frees nothing."""
    node, pv = lab.node('node-a', deadline=20), lab.pv()
    check(node.attach(pv).is_success, 'attached')
    node.configure(**wrong)
    not_freed(lab, pv, node)
    node.configure(**right)
    answer = node.detach(pv)
    check(answer.is_success, 'with the right configuration it is detached', answer)


@scenario
def other_project(lab):
    """credentials of another project: an attached volume is not called free"""
    out_of_sight(lab, {'user': 'other'}, {'user': 'demo'})


@scenario
def other_region(lab):
    """a region that knows neither server nor volume: an attached volume is not called free"""
    out_of_sight(lab, {'region': 'Elsewhere'}, {'region': 'RegionOne'})


@scenario
def node_names(lab):
    """a node name that is mapped, unmapped, or mapped to a deleted or a wrong server: no detach succeeds while attached"""
    deleted, pv = lab.spare_server('deleted'), lab.pv()
    lab.demo.do('nova', 'DELETE', f'/servers/{deleted}')
    wait(60, lambda: lab.demo.server(deleted) is None, 'a server is deleted')
    server = lab.servers['node-a']
    check(lab.node('node-a').attach(pv).is_success, 'attached to node-a, which Kubernetes calls master2')
    controller = lab.controller(deadline=20)
    for what, servers in (('unmapped', ''), ('mapped to a deleted server', f'master2 = "{deleted}"'),
                          ('mapped to the server of node-b', f'master2 = "{lab.servers["node-b"]}"')):
        controller.configure(servers=servers)
        answer = controller.is_attached(pv, 'master2')
        check(answer.attached is not False, f'{what}: isattached does not say no', answer)
        answer = controller.detach(pv, 'master2')
        check(not answer.is_success, f'{what}: detach does not succeed', answer)
        check(lab.demo.attached_to(pv.volume) == [server], 'it is still attached')
    controller.configure(servers=f'master2 = "{server}"')
    check(controller.is_attached(pv, 'master2').attached is True, 'mapped: isattached says yes')
    answer = controller.detach(pv, 'master2')
    check(answer.is_success and lab.demo.volume(pv.volume)['status'] == 'available', 'mapped: it is detached', answer)


@scenario
def server_deleted(lab):
    """the server is gone, the volumes are there: detach ends"""
    server, pvs = lab.spare_server('node-a'), (lab.pv(), lab.pv())
    node = lab.node('node-a', deadline=30)
    check(all(node.attach(pv).is_success for pv in pvs), 'two are attached')
    lab.demo.do('nova', 'DELETE', f'/servers/{server}')
    wait(60, lambda: lab.demo.server(server) is None, 'the server is gone')
    for host, asker, pv in zip(('the host itself', 'a host that is no server'), (node, lab.controller(deadline=30)), pvs):
        wait(60, lambda: lab.demo.volume(pv.volume)['status'] == 'available', 'the volume is free')
        answer = asker.is_attached(pv, 'node-a')
        check(answer.attached is not True, f'{host}: isattached does not say yes', answer)
        answer = asker.detach(pv, 'node-a')
        check(answer.is_success, f'{host}: detach succeeds', answer)
        # By now neither the name nor the server is known.
        answer = asker.detach(pv, 'node-a')
        print(f'  again: {answer}')
        check(answer.is_success or 'node.server_id' in answer.message, f'{host}: the next one too, or it names a way out')


@scenario
def volume_deleted(lab):
    """the volume is gone, the server is there: detach ends"""
    node, pv = lab.node('node-a', deadline=30), lab.pv()
    check(node.attach(pv).is_success, 'attached')
    lab.demo.do('nova', 'DELETE', f"/servers/{lab.servers['node-a']}/os-volume_attachments/{pv.volume}")
    wait(60, lambda: lab.demo.volume(pv.volume)['status'] == 'available', 'detached by hand')
    lab.demo.do('cinder', 'DELETE', f'/volumes/{pv.volume}')
    wait(60, lambda: lab.demo.volume(pv.volume) is None, 'deleted')
    for host, asker in (('the host itself', node), ('a host that remembers nothing', lab.controller(deadline=30))):
        answer = asker.detach(pv, 'node-a')
        check(answer.is_success, f'{host}: detach succeeds', answer)


@scenario
def both_deleted(lab):
    """server and volume are gone: detach ends"""
    server, pv = lab.spare_server('node-a'), lab.pv()
    node = lab.node('node-a', deadline=30)
    check(node.attach(pv).is_success, 'attached')
    lab.demo.do('nova', 'DELETE', f'/servers/{server}')
    wait(60, lambda: lab.demo.volume(pv.volume)['status'] == 'available', 'the volume is free')
    lab.demo.do('cinder', 'DELETE', f'/volumes/{pv.volume}')
    wait(60, lambda: lab.demo.volume(pv.volume) is None and lab.demo.server(server) is None, 'both are gone')
    answer = lab.node('node-b', deadline=30).detach(pv, 'node-a')
    check(answer.is_success, 'a host whose own server is there: detach succeeds', answer)
    # These see neither: the credentials may be the wrong ones.
    for host, asker in (('the host itself', node), ('a host that is no server', lab.controller(deadline=30))):
        answer = asker.detach(pv, 'node-a')
        print(f'  {host}: {answer}')
        check(answer.is_success or 'node.server_id' in answer.message, f'{host}: succeeds, or names a way out', answer)


@scenario
def reset_state(lab):
    """reset-state while attached, then a detach from the other node: the name stays until Nova lets go"""
    server = lab.servers['node-a']
    for what, reset in (('reset-state --state available', {'status': 'available'}),
                        ('the same with --attach-status detached', {'status': 'available', 'attach_status': 'detached'})):
        a, b, pv = lab.node('node-a', deadline=20), lab.node('node-b', deadline=20), lab.pv()
        check(a.attach(pv).is_success, f'{what}: attached to node-a')
        lab.admin.do('cinder', 'POST', f'/volumes/{pv.volume}/action', {'os-reset_status': reset})
        volume = lab.demo.volume(pv.volume)
        print(f"  Cinder calls it {volume['status']}, and lists {len(volume['attachments'])} attachments")
        answer = b.detach(pv)
        print(f'  detach from node-b: {answer}')
        answer = lab.controller(deadline=20).detach(pv, 'node-a')
        check(not answer.is_success or pv.volume not in lab.demo.mapped(server),
              'detach from node-a does not succeed while Nova maps it', answer)
        print(f'  {answer}')


@scenario
def slow_attach(lab):
    """Nova maps the volume 18 s before Cinder lists it: no ghost mapping, and detach undoes it"""
    node, pv, server = lab.node('node-a'), lab.pv(), lab.servers['node-a']
    fault('nova-cinder-POST-attachments.delay', 18)
    call = node.start('attach', pv.options, 'node-a')
    wait(15, lambda: pv.volume in lab.demo.mapped(server), 'Nova maps it')
    check(not lab.demo.attached_to(pv.volume), 'Nova maps it, and Cinder lists nothing')
    call.kill()
    call.communicate()
    answer = lab.controller().detach(pv, 'node-a')
    check('operator' not in answer.message and 'ghost' not in answer.message, 'it is not called a ghost mapping', answer)
    check(answer.is_success, 'detach waits for it, and undoes it', answer)
    time.sleep(8)
    check(pv.volume not in lab.demo.mapped(server) and not lab.demo.attached_to(pv.volume), 'it is free, and stays so')


@scenario
def shelved(lab):
    """the server is shelved and offloaded: detach is asked for, and succeeds"""
    server, pv = lab.spare_server('node-a'), lab.pv()
    node = lab.node('node-a', region='Counted', keystone=25000, deadline=40)
    check(node.attach(pv).is_success, 'attached')
    lab.demo.act(server, 'shelve')
    lab.demo.wait_for_server(server, 'SHELVED_OFFLOADED')
    print(f"  Cinder: {lab.demo.volume(pv.volume)['status']}")
    before = len(requests())
    answer = lab.controller(region='Counted', keystone=25000, deadline=40).detach(pv, 'node-a')
    sent = [one for one in requests()[before:] if one.startswith('nova DELETE')]
    check(sent, 'the DELETE is sent', answer)
    check(answer.is_success, 'detach succeeds', answer)
    check(lab.demo.volume(pv.volume)['status'] == 'available' and not lab.demo.mapped(server), 'the volume is free')


# --- messages ------------------------------------------------------------------------------------


def way_out(answer, *words):
    check(not answer.is_success and any(word in answer.message for word in words), f'it names a way out: {words}', answer)


@scenario
def ghost(lab):
    """Nova maps what Cinder has free: the message names a way out"""
    node, pv, server = lab.node('node-a', deadline=30), lab.pv(), lab.servers['node-a']
    # As an attach of the driver records it.
    lab.demo.do('cinder', 'POST', f'/volumes/{pv.volume}/metadata', {'metadata': {'incloud-disk-name': pv.name}})
    kill('nova-compute')
    status, _ = lab.demo.ask('nova', 'POST', f'/servers/{server}/os-volume_attachments',
                             {'volumeAttachment': {'volumeId': pv.volume}})
    start('nova-compute')
    wait(90, lambda: pv.volume in lab.demo.mapped(server), 'Nova maps it')
    check(lab.demo.volume(pv.volume)['status'] == 'available', f'asked for by hand, answered {status}; Cinder has it free')
    for call in (node.detach, node.attach):
        answer = call(pv)
        print(f'  {call.__name__}: {answer}')
        way_out(answer, 'block_device_mapping', 'nova-manage', 'openstack ')


@scenario
def error_status(lab):
    """status error while attached: the message names a way out, which works"""
    node, pv = lab.node('node-a', deadline=30), lab.pv()
    check(node.attach(pv).is_success, 'attached')

    def reset(status):
        lab.admin.do('cinder', 'POST', f'/volumes/{pv.volume}/action', {'os-reset_status': {'status': status}})

    reset('error')
    answer = node.detach(pv)
    if not answer.is_success:
        way_out(answer, 'openstack volume set')
        reset('in-use')
        answer = node.detach(pv)
    check(answer.is_success, 'detach succeeds', answer)


@scenario
def leftover_attachment(lab):
    """a second attachment, as a failed live migration leaves it: the message names the command that ends it"""
    node, pv, server = lab.node('node-a', deadline=25), lab.pv(), lab.servers['node-a']
    check(node.attach(pv).is_success, 'attached')
    more = lab.demo.do('cinder', 'POST', '/attachments', {'attachment': {
        'volume_uuid': pv.volume, 'instance_uuid': server}}, '3.27')['attachment']['id']
    answer = node.detach(pv)
    print(f'  detach: {answer}')
    check(not lab.demo.mapped(server), 'the server does not have it any more')
    if answer.is_success:
        # Then the next attach is what the reservation stops.
        answer = lab.node('node-b', deadline=25).attach(pv)
    way_out(answer, f'attachment delete {more}')
    lab.demo.do('cinder', 'DELETE', f'/attachments/{more}', version='3.27')
    for what, call in (('detach', node.detach), ('attach', node.attach), ('detach', node.detach)):
        answer = call(pv)
        check(answer.is_success, f'after it {what} succeeds', answer)


def refused_at_once(lab, pv, node, word, *ways):
    for call in (node.detach, node.attach):
        target = pv if call == node.detach else lab.pv()
        answer = call(target)
        check(not answer.is_success, f'{call.__name__} fails while {word}', answer)
        print(f'    {answer}')
        check(answer.seconds < 4, f'and at once: {answer.seconds:.1f} s')
        if ways:
            way_out(answer, *ways)


@scenario
def locked(lab):
    """a locked server: fails at once, and names `openstack server unlock`"""
    server, pv = lab.spare_server('node-a'), lab.pv()
    node = lab.node('node-a', deadline=30)
    check(node.attach(pv).is_success, 'attached')
    lab.admin.act(server, 'lock')
    refused_at_once(lab, pv, node, 'locked', 'openstack server unlock')
    lab.admin.act(server, 'unlock')
    answer = node.detach(pv)
    check(answer.is_success, 'unlocked, detach succeeds', answer)


@scenario
def suspended(lab):
    """a suspended server: fails at once"""
    server, pv = lab.spare_server('node-a'), lab.pv()
    node = lab.node('node-a', deadline=30)
    check(node.attach(pv).is_success, 'attached')
    lab.demo.act(server, 'suspend')
    lab.demo.wait_for_server(server, 'SUSPENDED')
    refused_at_once(lab, pv, node, 'suspended')
    lab.demo.act(server, 'resume')
    lab.demo.wait_for_server(server, 'ACTIVE')
    answer = node.detach(pv)
    check(answer.is_success, 'resumed, detach succeeds', answer)


@scenario
def migrating(lab):
    """a server that migrates: fails at once"""
    server, pv = lab.spare_server('node-a'), lab.pv()
    node = lab.node('node-a', deadline=30)
    check(node.attach(pv).is_success, 'attached')
    sql('nova', f"update instances set task_state = 'migrating' where uuid = '{server}'")
    refused_at_once(lab, pv, node, 'it migrates')
    sql('nova', f"update instances set task_state = null where uuid = '{server}'")
    answer = node.detach(pv)
    check(answer.is_success, 'afterwards detach succeeds', answer)


@scenario
def race(lab):
    """two nodes attach one volume at the same time, six times: one winner, of the loser nothing is left"""
    nodes, wrong = {name: lab.node(name) for name in ('node-a', 'node-b')}, []
    for turn in range(6):
        pv = lab.pv()
        calls = {name: node.start('attach', pv.options, name) for name, node in nodes.items()}
        won = [name for name, call in calls.items() if json.loads(call.communicate()[0])['status'] == 'Success']
        notes = lab.demo.volume(pv.volume)['metadata']
        has = lab.demo.attached_to(pv.volume)
        print(f'  won: {won}; notes: {notes}')
        if len(won) != 1 or has != [lab.servers[won[0]]]:
            wrong.append(f'turn {turn}: won {won}, attached to {has}')
            continue
        loser = lab.servers[next(name for name in nodes if name != won[0])]
        if any(loser in value for value in notes.values()) or 'incloud-disk-attach-asked' in notes:
            wrong.append(f'turn {turn}: a note of the loser: {notes}')
        if not notes.get('incloud-disk-tenure', '').endswith(lab.servers[won[0]]):
            wrong.append(f'turn {turn}: the winner has no count: {notes}')
        answer = nodes[won[0]].detach(pv)
        if not answer.is_success:
            wrong.append(f'turn {turn}: {answer}')
    check(not wrong, 'one winner each time, and no note of the loser', wrong)


# --- what it costs -------------------------------------------------------------------------------


def requests():
    """What calls in the region `Counted` have asked for: lines of service, method and path."""
    with open('/run/lab/requests') as file:
        return [line for line in file.read().splitlines() if not line.startswith(('nova-cinder ', 'elsewhere '))]


@scenario
def request_counts(lab):
    """how many requests a call makes"""
    node = lab.node('node-a', region='Counted', keystone=25000)
    warm = lab.pv()
    check(node.attach(warm).is_success and node.detach(warm).is_success, 'warm')
    least = {}
    # While Nova works, more looks may come; the least of three is what a call needs.
    for _ in range(3):
        pv = lab.pv()
        for what, call in (('attach', node.attach), ('attach, attached already', node.attach),
                           ('isattached', node.is_attached), ('detach', node.detach)):
            before = len(requests())
            answer = call(pv)
            check(answer.is_success, what, answer)
            made = requests()[before:]
            print('    ' + ', '.join(UUID.sub('ID', line) for line in made))
            least[what] = min(len(made), least.get(what, len(made)))
    FIGURES.extend((what, count, None) for what, count in least.items())
    for what, most in (('attach', 6), ('attach, attached already', 1), ('isattached', 1), ('detach', 5)):
        check(least[what] <= most, f'{what}: {least[what]} of {most} requests')


@scenario
def times(lab):
    """how long calls take beside the bare requests, in turn"""
    node, cloud, server = lab.node('node-a'), lab.demo, lab.servers['node-a']
    path = f'/servers/{server}/os-volume_attachments'

    def bare(volume, status, method, *request):
        began = time.monotonic()
        cloud.do('nova', method, *request)
        while cloud.volume(volume)['status'] != status:
            time.sleep(0.05)
        return time.monotonic() - began

    # Alone, and with the hot-plug of a hypervisor, which the compute driver here does not wait for.
    for hypervisor, (plug, unplug) in {'': (0, 0), ', hot-plug': HOT_PLUG}.items():
        fault('nova-attach.delay', plug)
        fault('nova-detach.delay', unplug)
        taken = {what: [] for what in ('attach', 'attach, bare requests', 'detach', 'detach, bare requests')}
        for turn in range(7):
            pv, volume = lab.pv(), lab.pv().volume
            seconds = {
                'attach': node.attach(pv).seconds,
                'attach, bare requests': bare(volume, 'in-use', 'POST', path, {'volumeAttachment': {'volumeId': volume}}),
                'detach': node.detach(pv).seconds,
                'detach, bare requests': bare(volume, 'available', 'DELETE', f'{path}/{volume}')}
            if turn:
                for what, one in seconds.items():
                    taken[what].append(one)
        check(all(taken.values()), 'measured')
        for what, all_of_them in taken.items():
            FIGURES.append((f'{what}{hypervisor}, median of {len(all_of_them)}', '', sorted(all_of_them)[len(all_of_them) // 2]))
