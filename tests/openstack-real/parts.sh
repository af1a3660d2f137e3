#!/bin/bash
# Downloads and unpacks the OpenStack services: parts.sh CACHE
#
# apt gets state of its own below CACHE, and nothing is installed. What is there already stays.
#
#   CACHE/root    a root directory with the services, MariaDB, RabbitMQ and Python
#   CACHE/seeded  the layer above it that the first start leaves: databases, users, two servers
set -euo pipefail
shopt -s nullglob

cache=$1
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/support/debian.sh
source "$here/../support/debian.sh"
# shellcheck source=tests/support/parts.sh
source "$here/../support/parts.sh"

# Debian 12 has OpenStack Zed.
release=bookworm

# The commands and paste files of the services are in nova-common and its like, not in the libraries.
packages=(
    python3-keystone python3-cinder python3-nova python3-placement python3-glance
    nova-common cinder-common glance-common nova-api cinder-api placement-api
    rabbitmq-server mariadb-server-core mariadb-client-core uwsgi-core uwsgi-plugin-python3
    bash dash coreutils util-linux mount grep sed mawk findutils procps diffutils iproute2 hostname
    base-files base-passwd libc6 libc-bin libgcc-s1
)

main() {
    mkdir -p "$cache/log"
    # Two at once would unpack into each other.
    exec 8>"$cache/lock"
    flock 8
    [[ ! -f $cache/done || $(<"$cache/done") != "${packages[*]}" ]] || return 0
    say "making them in $cache (about 1 GB)"
    rm -rf "$cache"/{done,seeded,seeded.done}
    find_mirrors "$release"
    use_suites "$cache/apt" deb "$release" "$release-security"
    say "reading the package lists of $release from this machine's mirrors"
    logged update apt_here update
    unpack_once root "${packages[@]}"
    # Installing would have done this; without it each start of a service compiles for minutes.
    say 'compiling the Python modules'
    # A few modules are for other versions of Python.
    logged compile chroot "$cache/root" sh -c \
        'nice -n 5 python3 -m compileall -qq /usr/lib/python3.11 /usr/lib/python3/dist-packages || true'
    rm -rf "$cache/apt"
    printf '%s\n' "${packages[*]}" >"$cache/done"
    done_after 'all parts are there' 0
}

main
