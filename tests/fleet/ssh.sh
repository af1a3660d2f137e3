#!/bin/bash
# What Ansible calls in place of ssh: enters the namespaces of a host, and runs the command there as sshd would.
# FLEET is the folder of the hosts.
set -euo pipefail

while [[ ${1-} == -* ]]; do
    case $1 in
        -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;
        *) shift ;;
    esac
done
host=${1##*@}
shift
echo "$host" >>"$FLEET/asked"
[[ ! -e $FLEET/$host/unreachable && -s $FLEET/$host/process ]] || {
    printf 'ssh: connect to host %s port 22: No route to host\n' "$host" >&2
    exit 255
}
process=$(<"$FLEET/$host/process")
# A kubelet of this machine, or of another test, is not of the host, which sees all processes. It may end meanwhile.
while read -r name; do
    grep -qF " ${name%/comm} " "/proc/$process/mountinfo" ||
        nsenter --target "$process" --mount mount -t tmpfs -o ro none "${name%/comm}" 2>/dev/null </dev/null || true
done < <(grep -lsx -e kubelet -e hyperkube /proc/[0-9]*/comm)
exec nsenter --target "$process" --mount --uts --ipc --net \
    env -i --chdir=/root HOME=/root USER=root LOGNAME=root SHELL=/bin/sh LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$*"
