#!/bin/bash
# The tests on a machine on which the driver is in use: tests/in_use.sh PATH-OF-DISK COMMAND...
#
# In a mount namespace of its own the driver is installed at its usual places, a kubelet runs
# (a program of that name and with its arguments), and two volumes of the local cloud are attached
# and mounted: of one pod that runs and of one whose disk is gone. Then the command runs there. What
# it left of the machine is compared with what it found.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} != --inside ]]; then
    [[ $# -ge 2 ]] || { printf '%s\n' "usage: tests/in_use.sh PATH-OF-DISK COMMAND..." >&2; exit 2; }
    [[ $EUID -eq 0 ]] || { printf '%s\n' "in_use.sh: this needs root" >&2; exit 1; }
    work=$(mktemp -d /tmp/incloud-disk-in-use-XXXXXX)
    status=0
    unshare --mount --propagation private \
        "$here/tests/in_use.sh" --inside "$work" "$@" || status=$?
    rm -rf "$work"
    exit "$status"
fi
work=$2 driver=$(realpath -- "$3")
shift 3

# The machine's own folders stay as they are: what is written goes to a layer above.
mount -t tmpfs tmpfs "$work"
for folder in /etc /var/lib /var/log /usr/libexec /usr/local; do
    upper=$work/layers$folder
    mkdir -p "$upper/new" "$upper/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$upper/new,workdir=$upper/work" "$folder"
done

"$here/install.sh" install --cloud local --binary "$driver" >"$work/installed"
disk=/usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk/disk
readonly root=/var/lib/kubelet
readonly pods=$root/pods mounts=$root/plugins/kubernetes.io/flexvolume/incloud/disk/mounts
mkdir -p "$pods" "$mounts"

mkfifo "$work/silence"
# A kubelet by its name and arguments; what it would do is done below.
cp "$(command -v bash)" "$work/kubelet"
# shellcheck disable=SC2016 # for that shell
"$work/kubelet" -c 'read -r <>"$0"' "$work/silence" --root-dir="$root" \
    --volume-plugin-dir="${disk%/*/*}" &
kubelet=$!
devices=()
# shellcheck disable=SC2317 # called by the trap
leave() {
    kill -KILL "$kubelet" || true
    umount --lazy "$pods"/*/volumes/incloud~disk/* "$mounts"/* 2>/dev/null || true
    # One that was pulled is gone already.
    losetup --detach "${devices[@]}" 2>/dev/null || true
}
trap leave EXIT

# call WORD...: as kubelet calls it.
call() {
    local reply
    reply=$("$disk" "$@")
    [[ $reply == *'"Success"'* ]] || { printf 'in_use.sh: %s: %s\n' "$1" "$reply" >&2; exit 1; }
    printf '%s\n' "$reply"
}

# volume NAME POD: created, attached, mounted for the pod.
volume() {
    local name=$1 pod=$2 id options device
    id=$name-$RANDOM
    "$disk" local create "$id" --size 64M >&2
    options="{\"kubernetes.io/fsType\":\"ext4\",\"kubernetes.io/pvOrVolumeName\":\"$name\",\"kubernetes.io/readwrite\":\"rw\",\"volumeID\":\"$id\"}"
    call attach "$options" "$(hostname)" >/dev/null
    device=$(call waitforattach '' "$options" | sed -n 's/.*"device":"\([^"]*\)".*/\1/p')
    mkdir -p "$mounts/$name" "$pods/$pod/volumes/incloud~disk/$name"
    call mountdevice "$mounts/$name" "$device" "$options" >/dev/null
    call mount "$pods/$pod/volumes/incloud~disk/$name" \
        "{\"kubernetes.io/fsType\":\"ext4\",\"kubernetes.io/pvOrVolumeName\":\"$name\",\"kubernetes.io/readwrite\":\"rw\",\"kubernetes.io/pod.uid\":\"$pod\",\"kubernetes.io/pod.name\":\"orders-0\",\"kubernetes.io/pod.namespace\":\"shop\",\"volumeID\":\"$id\"}" >/dev/null
    printf '%s %s\n' "$id" "$device"
}

read -r lives device < <(volume pvc-live 11111111-2222-4333-8444-555555555555)
devices+=("$device")
read -r gone device < <(volume pvc-gone 66666666-7777-4888-8999-000000000000)
devices+=("$device")
"$disk" local yank "$gone" >/dev/null
exec {held}>"$pods/11111111-2222-4333-8444-555555555555/volumes/incloud~disk/pvc-live/open"

# state: what must be as it was found.
state() {
    grep -F incloud /proc/self/mountinfo | cut -d ' ' -f 3-6 | sort
    # Not every machine has all of these folders.
    (cd / && { find "$root" /etc/incloud-disk /var/lib/incloud-disk "${disk%/*/*}" /etc/systemd /etc/udev -xdev 2>/dev/null || true; } |
        grep -v -e /incloud-disk/run -e /incloud-disk/locks | sort)
    "$disk" status --json | tr ',' '\n' | grep -E '"(id|health)"'
}
state >"$work/before"
printf '==> the driver is in use here: %s is mounted, the disk of %s is gone\n' "$lives" "$gone"
cd "$here"
status=0
"$@" || status=$?
state >"$work/after"
if ! diff "$work/before" "$work/after"; then
    printf '%s\n' 'in_use.sh: the machine is not as it was found' >&2
    status=1
fi
exec {held}>&-
exit "$status"
