#!/bin/bash
# The Ansible play and the cloud-init snippet on hosts of their own: run.sh RELEASE.tar.gz PARTS [ansible|cloud-init]
#
# A host is a set of namespaces (mounts, network with nothing but loopback, host name) whose root is a layer in memory
# over this machine's own root folder. Only PIDs are the machine's: the driver refuses where it cannot see all processes.
# With the last process all mounts are gone, however a run ends.
set -euo pipefail

release=$(realpath -- "$1") parts=$(realpath -- "$2")
shift 2
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

[[ $# -eq 0 || ($# -eq 1 && $1 =~ ^(ansible|cloud-init)$) ]] || {
    printf 'fleet: the words are ansible and cloud-init, not %s\n' "$*" >&2
    exit 2
}
[[ $EUID -eq 0 ]] || {
    printf 'fleet: hosts are namespaces and mounts, which needs root\n' >&2
    exit 1
}
work=$(mktemp -d "${TMPDIR:-/tmp}/incloud-disk-fleet.XXXXXX")
# All that a run starts is in one session. This ends it when the pipe is closed, by whatever ends this process.
exec {life}> >(
    trap '' INT TERM HUP PIPE
    read -r session && while read -r _; do :; done
    pkill -KILL --session "${session:-none}"
    # It is empty out here: what is mounted on it is seen within alone.
    rmdir "$work"
)
guard=$!
trap 'trap "" INT TERM HUP; exec {life}>&-; wait "$guard" || true' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# In the background, and waited for: a signal is answered at once.
setsid unshare --mount --propagation private \
    bash "$here/play.sh" "$work" "$release" "$parts" "$@" </dev/null {life}>&- &
inner=$!
echo "$inner" >&"$life"
status=0
wait "$inner" || status=$?
exit "$status"
