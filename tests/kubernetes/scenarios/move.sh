# A volume between two nodes, each with a kubelet of its own.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

play_move() {
    start_second_node
    expect 'a second node is up, with a kubelet of its own' 60 node_is_ready node-b
    begin
    make_rival
    did 'a pod of node-b wants the volume that node-a has'
    expect 'the kubelet of node-b asks its driver to attach' 60 on_second was_called attach
    expect 'the container on node-a runs' 1 lives
    expect 'the container on node-a writes on' 5 goes_on
    expect 'the driver refused' 5 on_second called attach Failure
    expect '... and tells kubelet where it is' 10 second_kubelet_says 'Multi-Attach error: .* is attached to node-a'
    expect '... the same, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    local number
    number=$(last_number)
    delete_set
    # kubelet doubles what it waits between two tries, up to two minutes.
    expect 'the pod on node-a deleted: node-b has the volume' 150 is_attached_to node-b
    expect '... nothing of it is mounted on node-a' 1 is_unmounted_here
    expect 'the pod on node-b is up, and has what the first one wrote' 90 rival_went_on_after "$number"
    expect "... on its volume's disk" 1 rival_is_on_its_volume
    expect '... and writes' 5 grows rival_last_number
    expect '... every number is there, once' 1 has_all rival_numbers
    stop_second_node
    put_away
}

# As drivers do that take a volume to where it is wanted: from the first node, in its name.
control_move() {
    configure enforce off
    printf '[cloud]\nkind = "local"\n[node]\nname = "node-a"\n' >/etc/incloud-disk/as-node-a.toml
    stand_before "[ \"\$1 \$3\" != 'attach node-b' ] ||
    INCLOUD_DISK_CONFIG=/etc/incloud-disk/as-node-a.toml \"\$real\" detach --force vol-$me >/dev/null 2>&1"
    decisive='the container on node-a writes on'
}

put_back_move() { stop_second_node; }

# --- the second node ----------------------------------------------------------------------------------

readonly second_logs=/var/log/node-b

# `own`: the second node has a driver of its own.
second_driver=shared
# Before there is a volume: the mounts of this node at its start are also its own.
start_second_node() {
    start node-b unshare --mount --uts --propagation private -- bash "$here/second.sh" "$second_driver"
}

on_second() {
    local marked=0 node_logs=$second_logs
    "$@"
}

in_second() { nsenter --target "$(pid_of node-b)" --mount --uts -- "$@"; }

was_called() {
    saw=$(calls | awk -v word="$1" '$2 == word { print $3; exit }')
    [[ -n $saw ]]
}

second_kubelet_says() {
    saw=$(grep -o "$1" "$second_logs/parts/kubelet.log" | head -n 1)
    [[ -n $saw ]]
}

stop_second_node() {
    told delete --ignore-not-found pod "$me-rival" --wait=false
    expect 'the pod on node-b deleted: the volume is detached there' 150 not is_attached_to node-b
    expect '... and the pod is gone' 150 is_gone "$me-rival"
    forget_second_node
}

# forget_second_node: whatever is left of it, be it a kubelet or an object only.
forget_second_node() {
    if [[ -e $pids/node-b ]]; then
        ! runs node-b || stop_part node-b
        rm -rf "$pids/node-b" /var/lib/incloud-disk/node-b /var/lib/node-b
    fi
    rm -f /etc/incloud-disk/as-node-a.toml
    told delete --ignore-not-found node node-b || true
}

# --- the pod there ------------------------------------------------------------------------------------

rival_uid() { kubectl get pod "$me-rival" -o 'jsonpath={.metadata.uid}'; }
rival_folder() { echo "/var/lib/kubelet/pods/$(rival_uid)/volumes/incloud~disk/pv-$me"; }
rival_numbers() { in_second cat "$(rival_folder)/count"; }
rival_last_number() { rival_numbers | tail -n 1; }

rival_went_on_after() {
    went_on_after "$1" "$second_logs/pods/default_$me-rival_$(rival_uid)/rival/0.log"
}

rival_is_on_its_volume() {
    is_its_disk "$(in_second cat /proc/self/mountinfo | disk_at "$(rival_folder)")"
}
