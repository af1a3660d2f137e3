#!/bin/bash
# A second node of the cluster; it is called in namespaces of its own (mounts, host name).
#
# It has a kubelet and a containerd of its own, and a memory of the driver's. Network, kernel and cloud are
# those of the first node, and the driver lies in the same folder.
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
start kubelet run_kubelet "$node" "$node_address" "/etc/kubernetes/$node.yaml"
trap end TERM
wait
