# What happens every day: a pod comes, kubelet restarts, the claim grows, the pod goes and comes again.
# shellcheck shell=bash disable=SC2154 # what scene.sh and cluster.sh set

play_first_life() {
    begin first-life
    expect 'attached' 1 called attach Success
    expect '... waited for' 1 called waitforattach Success
    expect '... mounted for the machine' 1 called mountdevice Success
    expect '... and for the pod' 1 called mount Success
    expect 'the container writes' 5 goes_on
    expect 'the file is whole' 1 whole first-life
    put_away first-life
    expect 'unmounted' 1 called unmount Success
    expect '... for the machine' 1 called unmountdevice Success
    expect '... detached' 1 called detach Success
    expect 'nothing was refused' 1 nothing_failed
}

nothing_failed() {
    saw=$(calls | awk '$3 != "Success"' | head -n 1)
    [[ -z $saw ]]
}

play_kubelet_restart() {
    begin kubelet-restart
    local attached waited
    attached=$(times attach Success) waited=$(times waitforattach Success)
    stop_part kubelet
    did 'kubelet stopped'
    expect 'the container writes on without kubelet' 5 goes_on
    start_kubelet
    did 'kubelet started'
    expect 'kubelet attaches again, and finds it attached' 60 called attach Success $((attached + 1))
    expect '... and waits for the disk' 30 called waitforattach Success $((waited + 1))
    sleep 10
    expect 'nothing was torn down' 1 called_never unmount unmountdevice detach
    expect 'the same container, never restarted' 10 is_same kubelet-restart
    expect '... on the same disk' 1 on_first_disk
    expect '... lost nothing' 1 lost_none kubelet-restart
    put_away kubelet-restart
}

play_resize() {
    # The kernel lets a root without CAP_SYS_RESOURCE (bit 24; some sandboxes) grow a mounted xfs, but
    # no mounted ext4. An xfs has 300 MiB at least.
    local capabilities
    capabilities=$(awk '/^CapEff:/ { print $2 }' /proc/self/status)
    ((0x$capabilities >> 24 & 1)) || fs_type=xfs size=320
    did "a volume of ${size} MiB with $fs_type"
    begin resize
    kubectl patch pvc data-resize-0 --type merge \
        -p '{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}' >/dev/null || fail 'the claim cannot grow'
    did 'the claim wants 512 MiB'
    expect 'kubelet has it grown' 120 called expandfs Success
    expect '... and says so in the claim' 60 claim_has resize 512Mi
    expect 'the container sees it' 5 container_has_more_than 400000
    expect 'the cloud has it' 5 cloud_has resize 512M
    expect 'the same container, never restarted' 10 is_same resize
    expect '... lost nothing' 1 lost_none resize
    expect 'the file is whole' 1 whole resize
    put_away resize
}

claim_has() {
    saw=$(kubectl get pvc "data-$1-0" -o 'jsonpath={.status.capacity.storage}')
    [[ $saw == "$2" ]]
}

# container_has_more_than KIB
container_has_more_than() {
    local size
    size=$(df --output=size "/proc/$pid/root/data" | tail -n 1)
    saw="$size KiB"
    ((size > $1))
}

cloud_has() {
    saw=$(disk local list | awk -v id="vol-$1" '$1 == id { print $2 }')
    [[ $saw == "$2" ]]
}
