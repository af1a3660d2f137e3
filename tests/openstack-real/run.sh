#!/bin/bash
# Real OpenStack services and the driver: run.sh DRIVER [SCENARIO...]
#
# Services and nodes are in namespaces of their own (mounts, network with nothing but loopback, host name), in a root of
# Debian's packages. The services also have a PID namespace, which ends all of them with its first process. Nodes see the
# PIDs of the machine: the driver refuses to unmount where it cannot see all processes.
set -euo pipefail

driver=$(realpath -e -- "$1")
shift
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
cache=${INCLOUD_DISK_OPENSTACK_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/incloud-disk/openstack}
readonly name=incloud-disk-openstack

stop() {
    printf 'openstack: %s\n\n0 passed, 1 failed, 0 skipped\n' "$*" >&2
    exit 1
}

# remove_run DIRECTORY: ends the processes of a run, and removes its loop devices and its directory.
remove_run() {
    local session began tries=0 images loop device inode
    # The services end with their PID namespace, whose parent is in the session.
    if read -r session began <"$1/session" && [[ $(started_at "$session") =~ ^("$began")?$ ]]; then
        while ((tries++ < 100)) && pkill -KILL --session "$session"; do
            sleep 0.1
        done
    fi 2>/dev/null
    images=$(find "$1/volumes" -type f -exec stat --format '%Hd:%Ld %i' {} + 2>/dev/null || true)
    # A device is busy until the mounts of the nodes have ended with their namespaces.
    for ((tries = 0; tries < 100; tries++)); do
        devices=()
        while read -r loop device inode; do
            if grep -qx "$device $inode" <<<"$images"; then
                devices+=("$loop")
            fi
        done < <(losetup --list --noheadings --output NAME,BACK-MAJ:MIN,BACK-INO)
        ((${#devices[@]})) || break
        losetup --detach "${devices[@]}" 2>/dev/null || true
        sleep 0.1
    done
    rm -rf --one-file-system "$1"
}

# started_at PID: with the PID it names one process for ever.
started_at() { sed -n 's/.*) //p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# A run that was killed cleaned nothing up. Its lock is free.
remove_dead_runs() {
    local directory
    for directory in "${TMPDIR:-/tmp}/$name".*; do
        [[ -e $directory/lock ]] || continue
        if flock --nonblock "$directory/lock" true; then
            remove_run "$directory"
        fi
    done
}

[[ $EUID -eq 0 ]] || stop 'this makes namespaces, mounts and loop devices, which needs root'
printf -- '--- the services\n'
bash "$here/parts.sh" "$cache" || stop 'the services could not be unpacked'
remove_dead_runs
scratch=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX")
exec 7>"$scratch/lock"
flock 7
trap 'trap "" INT TERM HUP PIPE; exec 7>&-; remove_run "$scratch"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM
rm -rf "$cache/logs"
mkdir "$cache/logs"

# In the background, and waited for: a signal is answered at once. In a session of its own, so that Ctrl-C reaches
# this script alone.
setsid unshare --mount --net --uts --ipc -- bash "$here/inside.sh" "$cache" "$scratch" "$here" "$driver" "$@" \
    </dev/null 7>&- &
inside=$!
printf '%s %s\n' "$inside" "$(started_at "$inside")" >"$scratch/session"
status=0
wait "$inside" || status=$?
exit "$status"
