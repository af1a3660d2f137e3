#!/bin/bash
# A real Kubernetes 1.20 on one node, and the driver in it: run.sh RELEASE.tar.gz IMAGE.oci.tar [SCENARIO...]
#
# A node gets its driver by the release that `install.sh release` packs, or by the image of `install.sh image`.
# The node is a root of Debian's packages in namespaces of its own (mounts, network with nothing but
# loopback, host name), with cgroups of its own. Only PIDs are the machine's: the driver's guard asks
# all processes, and refuses where it cannot see them. So what was started is ended by its cgroup.
set -euo pipefail
shopt -s nullglob

release=$(realpath -- "$1") image=$(realpath -- "$2")
shift 2
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
project=$(dirname -- "$(dirname -- "$here")")
cache=${INCLOUD_DISK_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/incloud-disk/kubernetes}
readonly name=incloud-disk-kubernetes

say() { printf '%s\n' "$*"; }
stop() {
    printf 'kubernetes: %s\n' "$*" >&2
    say ''
    say '0 passed, 1 failed, 0 skipped'
    exit 1
}

# --- what a run has, and leaves --------------------------------------------------------------------

# The trees of cgroups, each by the folder where it is mounted from its root on.
cgroup_trees() {
    awk '$4 == "/" && $6 ~ /^rw/ {
        for (i = 7; $i != "-"; i++) {}
        if ($(i + 1) ~ /^cgroup2?$/) print $5
    }' /proc/self/mountinfo | sort -u
}

processes_in() {
    find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null || true
}

# remove_run NAME: ends the processes of a run, and removes its cgroups, loop devices and folder.
remove_run() {
    local tree pid tries=0 loop folder images device inode
    mapfile -t trees < <(cgroup_trees)
    while ((tries++ < 200)); do
        local found=
        for tree in "${trees[@]}"; do
            [[ -d $tree/$1 ]] || continue
            for pid in $(processes_in "$tree/$1"); do
                found=yes
                kill -KILL "$pid" 2>/dev/null || true
            done
        done
        [[ -n $found ]] || break
        sleep 0.05
    done
    for tree in "${trees[@]}"; do
        [[ ! -d $tree/$1 ]] || find "$tree/$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    folder=${TMPDIR:-/tmp}/$1
    # Its mounts went with the last process of its mount namespace; a loop device stays, and shows the
    # path that its image had in there. So it is told by the image itself.
    images=$(find "$folder" -xdev -type f -name '*.img' -exec stat --format '%Hd:%Ld %i' {} + 2>/dev/null || true)
    while read -r loop device inode; do
        if grep -qx "$device $inode" <<<"$images"; then
            losetup --detach "$loop" 2>/dev/null || true
        fi
    done < <(losetup --list --noheadings --output NAME,BACK-MAJ:MIN,BACK-INO)
    rm -rf --one-file-system "$folder"
}

# A run that was killed cleaned nothing up; its name has the process that it was.
remove_dead_runs() {
    local tree folder run
    {
        for tree in $(cgroup_trees); do
            for folder in "$tree/$name".*; do basename "$folder"; done
        done
        for folder in "${TMPDIR:-/tmp}/$name".*; do basename "$folder"; done
    } | sort -u | while read -r run; do
        [[ -e /proc/${run##*.} ]] || remove_run "$run"
    done
}

make_cgroups() {
    local tree
    for tree in $(cgroup_trees); do
        # A unified tree hands controllers down only where it is told to; a hybrid one has none.
        if [[ -f $tree/cgroup.controllers ]]; then
            enable_controllers "$tree"
        fi
        mkdir "$tree/$run" "$tree/$run/parts" "$tree/$run/node-b"
        if [[ -f $tree/cgroup.controllers ]]; then
            enable_controllers "$tree/$run"
        fi
        # Version 1 makes a folder in which nothing may run until it is told where.
        if [[ -f $tree/cpuset.cpus ]]; then
            for folder in "$tree/$run" "$tree/$run"/{parts,node-b}; do
                cat "$tree/cpuset.cpus" >"$folder/cpuset.cpus"
                cat "$tree/cpuset.mems" >"$folder/cpuset.mems"
            done
        fi
    done
}

enable_controllers() {
    local controller
    for controller in $(<"$1/cgroup.controllers"); do
        echo "+$controller" 2>/dev/null >"$1/cgroup.subtree_control" || true
    done
}

enter_cgroups() {
    local tree
    for tree in $(cgroup_trees); do
        echo "$BASHPID" >"$tree/$run/parts/cgroup.procs"
    done
}

# --- the run ----------------------------------------------------------------------------------------

[[ $EUID -eq 0 ]] || stop 'a cluster needs root'
[[ $release == *.tar.gz && -f $release && -f $image ]] || stop "$release is no packed release; ./install.sh test kubernetes packs one"
say '--- the parts of the cluster'
bash "$here/parts.sh" "$cache" || stop "the cluster's parts could not be made"

remove_dead_runs
run=$name.$$
scratch=${TMPDIR:-/tmp}/$run
trap 'trap "" INT TERM HUP PIPE; remove_run "$run"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM

(umask 077 && mkdir "$scratch")
mkdir "$scratch"/{upper,work,root,containerd,state,log,release,images}
tar -x -f "$release" -C "$scratch/release" --strip-components 1 --no-same-owner
cp "$cache/images/box.tar" "$scratch/images/box.tar"
cp "$image" "$scratch/images/disk.tar"
# A program that no package has; without it what needs it is skipped.
if [[ -n ${INCLOUD_DISK_NODE_PROBLEM_DETECTOR:-} ]]; then
    mkdir -p "$scratch/detector/bin"
    cp "$INCLOUD_DISK_NODE_PROBLEM_DETECTOR" "$scratch/detector/node-problem-detector"
    cp "$cache/busybox/bin/busybox" "$scratch/detector/bin/true"
    bash "$here/image.sh" "$scratch/detector" \
        "$(sed -n 's/^ *image: //p' "$project/examples/node-problem-detector.yaml")" '["/node-problem-detector"]' \
        "$scratch/images/detector.tar"
fi
# Likewise for Helm, whose code one package has as a library.
[[ -z ${HELM_LIBRARY:-} ]] || cp "$HELM_LIBRARY" "$scratch/images/helm.so"
# The project's own OpenStack-compatible server, built by who calls this.
[[ -z ${INCLOUD_DISK_OPENSTACK_SERVER:-} ]] || cp "$INCLOUD_DISK_OPENSTACK_SERVER" "$scratch/release/openstack"
rm -rf "$cache/logs"
mkdir -p "$cache/logs"
make_cgroups

# In the background, and waited for: a signal is answered at once.
(
    enter_cgroups
    exec unshare --mount --net --uts --ipc -- bash "$here/node.sh" \
        "$cache" "$scratch" "$project" "$run" "$@" </dev/null
) &
status=0
wait $! || status=$?
exit "$status"
