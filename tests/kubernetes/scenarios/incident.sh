# The incident: etcd stalls, kubelet restarts, cannot read the claim and takes a running pod for one
# that does not want its volume.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

# stall: after this kubelet has begun to tear down.
stall() {
    stop_part kubelet
    did 'kubelet stopped'
    freeze_etcd
    did 'etcd frozen (SIGSTOP)'
    start_kubelet
    did 'kubelet started'
}

etcd_returns() {
    thaw_etcd
    did 'etcd goes on (SIGCONT), the API server answers'
}

# With the guard nothing may come of it.
guarded_incident() {
    begin
    stall
    expect 'kubelet wants to unmount' 120 asked unmount
    # What kubelet tears down is gone within half a second.
    sleep 2
    expect 'the container runs, while etcd is frozen' 1 lives
    expect '... and writes on' 5 goes_on
    expect '... its folder is mounted' 1 on_first_disk_on_host
    expect 'the guard refused, three times' 10 called unmount Failure 3
    expect 'no other tear-down was called' 1 called_never unmountdevice detach
    etcd_returns
    sleep 10
    expect 'the same container, never restarted' 10 is_same
    expect '... on the same disk' 1 on_first_disk
    expect '... writes' 5 goes_on
    expect '... and lost nothing' 1 lost_none
    expect 'the refusal has ended' 10 quiet unmount
    expect 'the file is whole' 1 whole
}

on_first_disk_on_host() {
    saw="disk $(disk_on_host)"
    [[ $saw == "disk $first_disk" ]]
}

control_incident() {
    configure off off
    decisive='... and writes on'
}

# asked WORD: it was called, whatever the answer.
asked() {
    saw=$(calls | awk -v word="$1" '$2 == word { print $3; exit }')
    [[ -n $saw ]]
}

lives() {
    saw="pid $pid"
    runs_as "$pid"
}

# called_never WORD...
called_never() {
    local word count=0
    for word in "$@"; do
        count=$((count + $(times "$word" Success) + $(times "$word" Failure)))
    done
    saw="$count calls"
    ((count == 0))
}

# quiet WORD: not called within some seconds.
quiet() {
    local before after
    before=$(calls | awk -v word="$1" '$2 == word' | wc -l)
    sleep 5
    after=$(calls | awk -v word="$1" '$2 == word' | wc -l)
    saw="no $1 within 5 s"
    ((before == after))
}

torn_down() {
    begin
    stall
    expect 'kubelet unmounts under the running pod' 120 called unmount Success
    expect '... and unmounts the device' 30 called unmountdevice Success
    expect '... and detaches' 30 called detach Success
    expect 'the container has lost its disk' 20 loses
    etcd_returns
    expect 'kubelet attaches again' 120 called attach Success 2
    expect '... and mounts' 60 called mount Success 2
}

# loses: numbers that could not be written, and it goes on.
loses() {
    local before after
    before=$(lost_numbers)
    sleep 2
    after=$(lost_numbers)
    saw="$before numbers lost, then $after"
    ((after > before))
}

play_incident() {
    guarded_incident
    # Without it the deletion too would wait, see play_incident_care.
    local waited
    waited=$(times waitforattach Success)
    stop_part kubelet
    start_kubelet
    did 'kubelet restarted, now that the API server answers'
    expect '... it finds the volume where it is' 60 called waitforattach Success $((waited + 1))
    expect '... and tears nothing down' 1 called_never unmountdevice detach
    expect 'the same container, never restarted' 10 is_same
    put_away
    expect '... and the pod is gone' 30 is_gone
}

# What kubelet 1.20 thinks afterwards: the mount that it took over without the claim has the
# PersistentVolume's name instead of the pod's for its volume, so it waits for a mount that is there,
# and does nothing else for this pod, until it is restarted (kubernetes issue 41522).
play_incident_care() {
    begin
    stall
    expect 'kubelet wants to unmount' 120 asked unmount
    sleep 2
    etcd_returns
    until_true 60 node_is_ready || fail 'the node is not ready'
    kill -KILL "$pid"
    did 'the container is killed'
    if until_true 45 is_restarted; then
        seen '... kubelet starts it again by itself' "pid $pid"
    else
        did '... kubelet does not start it again within 45 s' "$(sync_failure)"
    fi
    stop_part kubelet
    start_kubelet
    did 'kubelet restarted'
    expect 'the container is up again' 120 is_restarted
    expect '... and writes' 5 goes_on
    # First: without the guard the disk has another number if anybody took the old one meanwhile.
    expect '... and without loss' 1 lost_none
    expect '... on the same disk' 1 on_first_disk
    expect 'the guard had refused, three times' 1 called unmount Failure 3
    put_away
}

# kubelet gets over it better then: it knows that it has mounted nothing.
control_incident_care() {
    configure off off
    decisive='... and without loss'
}

is_restarted() {
    look || return 1
    saw="$restarts restarts, pid $pid"
    [[ $uid == "$first_uid" && $pid != "$first_pid" && $container != "$first_container" ]]
}

sync_failure() {
    kubectl get events --field-selector "involvedObject.name=$me-0,reason=FailedMount" \
        -o 'jsonpath={.items[-1:].message}' 2>/dev/null | cut -c1-120
}

play_incident_unguarded() {
    configure off auto
    torn_down
    expect 'the same container, never restarted' 30 is_same
    expect '... has the disk that came back' 10 on_new_disk
    expect '... writes on' 5 goes_on
    expect '... what it wrote before is there' 5 has_from_before
    expect '... loses nothing more' 10 loses_no_more
    expect 'the machine sees what it writes' 5 seen_on_host
    configure enforce auto
    put_away
}

# A test that cannot see a lost disk tests nothing.
play_incident_lost() {
    configure off off
    torn_down
    sleep 10
    expect 'kubelet believes that all is well: the same container' 30 is_same
    expect '... and it is still without its disk' 20 loses
    expect 'the machine sees nothing of what it writes' 5 not seen_on_host
    configure enforce auto
    put_away
}

on_new_disk() {
    local now host
    now=$(disk_in_container)
    host=$(disk_on_host)
    saw="disk $first_disk before, $now now, $host on the machine, one layer"
    [[ -n $now && $now == "$host" && $(layers_in_container) == 1 ]]
}

has_from_before() {
    saw=$(awk 'NR == 1 { first = $1 } END { print "numbers " first " to " $1 }' "/proc/$pid/root/data/count")
    [[ $saw == 'numbers 1 to '* ]]
}

loses_no_more() {
    local before after
    before=$(lost_numbers)
    sleep 3
    after=$(lost_numbers)
    saw="$after lost in the outage"
    ((after == before))
}

seen_on_host() {
    local before after folder
    folder=$(pod_folder)
    before=$(tail -n 1 "$folder/count")
    sleep 2
    after=$(tail -n 1 "$folder/count")
    saw="number $before, then $after"
    ((after > before))
}
