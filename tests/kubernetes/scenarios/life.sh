# What happens every day: a pod comes, kubelet restarts, the claim grows, the pod goes and comes again.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

play_first_life() {
    begin
    expect 'attached' 1 called attach Success
    expect '... waited for' 1 called waitforattach Success
    expect '... mounted for the machine' 1 called mountdevice Success
    expect '... and for the pod' 1 called mount Success
    expect 'the container writes' 5 goes_on
    expect 'the file is whole' 1 whole
    put_away
    expect '... and the pod is gone' 120 is_gone
    expect 'unmounted' 1 called unmount Success
    expect '... for the machine' 1 called unmountdevice Success
    expect '... detached' 1 called detach Success
    expect 'nothing was refused' 1 nothing_failed
}

control_first_life() {
    only_says mount
    decisive="... on its volume's disk"
}

put_back_first_life() { sweep; }

nothing_failed() {
    saw=$(calls | awk '$3 != "Success"' | head -n 1)
    [[ -z $saw ]]
}

play_kubelet_restart() {
    begin
    local attached waited
    attached=$(times attach Success) waited=$(times waitforattach Success)
    stop_part kubelet
    did 'kubelet stopped'
    expect 'the container writes on without kubelet' 5 goes_on
    start_kubelet
    did 'kubelet started'
    expect 'kubelet attaches again, and finds it attached' 60 called attach Success $((attached + 1))
    sleep 10
    expect 'the same container, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    expect '... on the same disk' 1 on_first_disk
    expect 'kubelet waited for the disk' 1 called waitforattach Success $((waited + 1))
    expect 'nothing was torn down' 1 called_never unmount unmountdevice detach
    put_away
}

# A caller that is told to attach begins with a detach, to be sure.
control_kubelet_restart() {
    configure enforce off
    stand_before "[ \"\$1\" != attach ] || \"\$real\" detach --force vol-$me >/dev/null 2>&1"
    decisive='... lost nothing'
}

# growable: a volume of a kind that can grow while it is mounted. The kernel lets a root without
# CAP_SYS_RESOURCE (bit 24; some sandboxes) grow a mounted xfs, but no mounted ext4. An xfs has 300 MiB at
# least.
growable() {
    local capabilities
    capabilities=$(awk '/^CapEff:/ { print $2 }' /proc/self/status)
    ((0x$capabilities >> 24 & 1)) || fs_type=xfs size=320
}

play_resize() {
    growable
    did "a volume of ${size} MiB with $fs_type"
    begin
    told patch pvc "data-$me-0" --type merge \
        -p '{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}' || fail 'the claim cannot grow'
    did 'the claim wants 512 MiB'
    expect 'kubelet has it grown, and says so in the claim' 120 claim_has 512Mi
    expect 'the container sees it' 5 container_has_more_than 400000
    expect 'the driver did it' 1 called expandfs Success
    expect 'the cloud has it' 5 cloud_has 512M
    expect 'the same container, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    expect 'the file is whole' 1 whole
    put_away
}

control_resize() {
    only_says expandfs
    decisive='the container sees it'
}

claim_has() {
    saw=$(kubectl get pvc "data-$me-0" -o 'jsonpath={.status.capacity.storage}')
    [[ $saw == "$1" ]]
}

# container_has_more_than KIB
container_has_more_than() {
    local size
    size=$(df --output=size "/proc/$pid/root/data" | tail -n 1)
    saw="$size KiB"
    ((size > $1))
}

cloud_has() {
    saw=$(disk local list | awk -v id="vol-$me" '$1 == id { print $2 }')
    [[ $saw == "$1" ]]
}
