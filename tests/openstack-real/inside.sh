#!/bin/bash
# Makes the root of the services and the nodes, and plays the scenarios:
# inside.sh CACHE SCRATCH SUITE DRIVER [SCENARIO...]
#
# It is called in namespaces of its own. The first run starts the services once to make databases, users and servers,
# and keeps the result as a layer of its own.
set -euo pipefail

cache=$1 scratch=$2 suite=$3 driver=$4
shift 4
root=$scratch/root

say() { printf '    %s\n' "$*"; }

# make_root LAYER...: a root over these layers, the uppermost first, that is written to SCRATCH/upper.
make_root() {
    local IFS=:
    mkdir -p "$scratch"/{root,upper,work,volumes,state}
    mount -t overlay -o "lowerdir=$*,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
    mkdir -p "$root"/{dev,proc,sys,run,tmp,suite,nodes,var/lab/{volumes,state,guests}} "$root"/etc
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mount --bind "$scratch/volumes" "$root/var/lab/volumes"
    mount --bind "$scratch/state" "$root/var/lab/state"
    mount --bind "$suite" "$root/suite"
    mount -o remount,bind,ro "$root/suite"
    # What the packages' own scripts would have made.
    printf 'root:x:0:0:root:/root:/bin/bash\n' >"$root/etc/passwd"
    printf 'root:x:0:\n' >"$root/etc/group"
    printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$root/etc/hosts"
    printf 'hosts: files\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
    : >"$root/etc/resolv.conf"
    ln -sf mawk "$root/usr/bin/awk"
}

# within COMMAND...: in the root, with nothing of this process's environment.
within() {
    env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 PYTHONPATH=/suite PYTHONUNBUFFERED=1 \
        PYTHONDONTWRITEBYTECODE=1 chroot "$root" "$@"
}

# start_services: all of them end with the process that this starts, and that one with its input.
start_services() {
    local began=$SECONDS
    mkfifo "$scratch/life"
    (
        export -f within
        export root
        # shellcheck disable=SC2016 # for the inner shell
        exec unshare --mount --pid --fork --kill-child -- \
            bash -c 'mount -t proc proc "$root/proc"; within bash /suite/services.sh'
    ) <"$scratch/life" >"$scratch/services.out" 2>&1 &
    services=$!
    exec {life}>"$scratch/life"
    rm "$scratch/life"
    until [[ -e $root/run/lab/up ]]; do
        if ! kill -0 "$services" 2>/dev/null || ((SECONDS - began > 600)); then
            cat "$scratch/services.out" >&2
            cp -r "$root/var/log/lab/." "$cache/logs/" || true
            printf 'the services did not start; their logs are in %s\n' "$cache/logs" >&2
            return 1
        fi
        sleep 0.5
    done
    say "the services are up: $((SECONDS - began)) s"
}

stop_services() {
    exec {life}>&-
    wait "$services" || true
}

seed_key() { cat "$suite"/services.sh "$suite"/lab/seed.py | sha256sum; }

seed() {
    local began=$SECONDS
    say 'making databases, users and servers (once)'
    make_root "$cache/root"
    start_services
    within python3 -m lab.seed
    stop_services
    umount --recursive "$root"
    mkdir "$cache/seeded.new"
    cp -a "$scratch/upper/." "$cache/seeded.new/"
    mv "$cache/seeded.new" "$cache/seeded"
    seed_key >"$cache/seeded.done"
    rm -rf "$scratch"/{upper,work}
    say "done: $((SECONDS - began)) s"
}

# The machine's own root, but for the virtual block devices in sysfs: here they are links to the kernel's, so that
# those of this node's server can have a serial. An overlay over sysfs would keep what the kernel has removed.
make_node() {
    local view=$scratch/sysfs/$1 name
    mkdir "$view" "$root/nodes/$1"
    for name in $(printf '%s\n' loop{0..511} "$(ls /sys/devices/virtual/block)" | sort -u); do
        ln -s "$scratch/sysfs/kernel/$name" "$view/$name"
    done
    mount --bind "$view" "$root/nodes/$1"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --propagation private -- bash -c 'mount --bind "$1" /sys/devices/virtual/block; exec sleep infinity' \
        - "$view" &
    echo $! >"$root/run/$1.pid"
}

mount --make-rprivate /
echo lab >/proc/sys/kernel/hostname
ip link set lo up
if [[ ! -f $cache/seeded.done || $(<"$cache/seeded.done") != "$(seed_key)" ]]; then
    rm -rf "$cache"/seeded{,.done,.new}
    seed
fi
make_root "$cache/seeded" "$cache/root"
mkdir -p "$root/run/lab"
mkdir -p "$scratch/sysfs/kernel"
mount --bind /sys/devices/virtual/block "$scratch/sysfs/kernel"
make_node node-a
make_node node-b
start_services
status=0
within env DRIVER="$driver" SCRATCH="$scratch" SERVICES="$services" python3 -m lab.play "$@" || status=$?
((status == 0)) || {
    cp -r "$root/var/log/lab/." "$cache/logs/" || true
    say "the logs are in $cache/logs"
}
stop_services
exit "$status"
