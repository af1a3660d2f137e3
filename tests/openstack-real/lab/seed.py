"""Makes what a first start needs: `accounts` (users and the catalog), else flavor, image and two servers."""

import json
import sys

from lab.cloud import Cloud, wait

REGIONS = {
    'RegionOne': {'compute': 8774, 'volumev3': 8776},
    # By the proxies: requests are counted, or nothing of ours is known there.
    'Counted': {'compute': 28774, 'volumev3': 28776},
    'Elsewhere': {'compute': 38774, 'volumev3': 38776},
}
PATHS = {'compute': '/v2.1', 'volumev3': '/v3/$(project_id)s'}


def accounts():
    admin = Cloud('admin', 'admin')

    def make(kind, **values):
        return admin.do('keystone', 'POST', f'/{kind}s', {kind: values})[kind]['id']

    roles = {one['name']: one['id'] for one in admin.do('keystone', 'GET', '/roles')['roles']}
    for role in ('service', 'member'):
        roles.setdefault(role, None)
        roles[role] = roles[role] or make('role', name=role)
    projects = {name: make('project', name=name, domain_id='default') for name in ('service', 'demo', 'other')}
    users = {'nova': 'service', 'cinder': 'service', 'glance': 'service', 'placement': 'service', 'demo': 'demo',
             'other': 'other'}
    for user, project in users.items():
        made = make('user', name=user, domain_id='default', password=f'secret-of-{user}')
        for role in ('admin', 'service') if project == 'service' else ('member',):
            admin.do('keystone', 'PUT', f'/projects/{projects[project]}/users/{made}/roles/{roles[role]}')
    services = {kind: make('service', name=name, type=kind) for kind, name in (
        ('compute', 'nova'), ('volumev3', 'cinderv3'), ('image', 'glance'), ('placement', 'placement'))}
    for region, ports in REGIONS.items():
        if region != 'RegionOne':
            make('region', id=region)
        for kind, port in ports.items():
            for interface in ('public', 'internal', 'admin'):
                make('endpoint', service_id=services[kind], interface=interface, region_id=region,
                     url=f'http://127.0.0.1:{port}{PATHS[kind]}')
    for kind, port in (('image', 9292), ('placement', 8778)):
        for interface in ('public', 'internal', 'admin'):
            make('endpoint', service_id=services[kind], interface=interface, region_id='RegionOne',
                 url=f'http://127.0.0.1:{port}')


def servers():
    admin, demo = Cloud('admin', 'admin'), Cloud('demo', 'demo')
    # A service that was just started may refuse a token for a while.
    for service, path in (('nova', '/flavors'), ('cinder', '/types'), ('glance', '/images')):
        wait(120, lambda: admin.ask(service, 'GET', path)[0] == 200, f'{service} answers')
    admin.do('nova', 'POST', '/flavors', {'flavor': {'id': '1', 'name': 'tiny', 'ram': 64, 'vcpus': 1, 'disk': 1}})
    image = admin.do('glance', 'POST', '/images', {
        'name': 'empty', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'})['id']
    admin.do('glance', 'PUT', f'/images/{image}/file', bytes(1 << 20))
    for name, specs in (('files', {}), ('multi', {'multiattach': '<is> True'})):
        kind = admin.do('cinder', 'POST', '/types', {'volume_type': {'name': name}})['volume_type']['id']
        if specs:
            admin.do('cinder', 'POST', f'/types/{kind}/extra_specs', {'extra_specs': specs})
    admin.do('cinder', 'PUT', f'/os-quota-sets/{demo.project}', {'quota_set': {'volumes': 1000, 'gigabytes': 9000}})
    admin.do('nova', 'PUT', f'/os-quota-sets/{demo.project}', {'quota_set': {'instances': 50, 'cores': 50, 'ram': 99999}})
    made = {'image': image}
    for name in ('node-a', 'node-b'):
        made[name] = demo.make_server(name, image)
    with open('/var/lab/seed.json', 'w') as file:
        json.dump(made, file)


accounts() if sys.argv[1:] == ['accounts'] else servers()
