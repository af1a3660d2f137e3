#!/bin/bash
# A second node of the cluster; it is called in namespaces of its own (mounts, host name): second.sh own|shared
#
# It has a kubelet and a containerd of its own, and a memory of the driver's. Network, kernel and cloud are
# those of the first node, and the driver lies in the same folder; with `own` it has its own copy of the driver, of
# the configuration and of what was installed. On SIGUSR1 it starts its kubelet again.
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=cluster.sh
. "$here/cluster.sh"

readonly node=node-b node_address=10.77.0.2 memory=/var/lib/incloud-disk

fail() {
    printf 'second.sh: %s\n' "$*" >&2
    exit 1
}

echo "$node" >/proc/sys/kernel/hostname
# The network outlives the node: the address may be there from its life before.
ip address replace "$node_address/32" dev lo

# The paths are those of every node, and what lies there is this one's; but the volumes are the cloud's.
mkdir -p "$memory/local" "$memory/$node/local" "/var/log/$node/parts"
mount --bind "$memory/local" "$memory/$node/local"
if [[ $1 == own ]]; then
    cp -a "$memory/installed" "$memory/$node/"
    for folder in "$plugins" /etc/incloud-disk; do
        mkdir -p "/var/lib/$node$folder"
        cp -a "$folder/." "/var/lib/$node$folder"
        mount --bind "/var/lib/$node$folder" "$folder"
    done
fi
mount --rbind "$memory/$node" "$memory"
mount --bind "/var/log/$node" /var/log
for folder in /run /var/lib/kubelet /var/lib/containerd; do
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p "$pids" /run/kubernetes
mount --make-rshared /

end() {
    trap '' TERM
    kill -TERM "$(pid_of kubelet)" "$(pid_of containerd)" 2>/dev/null || true
    wait
    exit 0
}

start_containerd
kubelet_config "$node_address" "$RUN/$node" false >"/etc/kubernetes/$node.yaml"
begin() { start kubelet run_kubelet "$node" "$node_address" "/etc/kubernetes/$node.yaml"; }
begin
trap end TERM
trap begin USR1
while runs containerd; do wait "$(pid_of containerd)" || true; done
