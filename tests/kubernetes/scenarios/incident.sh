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

# kubelet is let go of the folder, and of nothing else; the pod must not notice, and kubelet must get
# over it by itself.
guarded_incident() {
    begin
    let_go
    expect 'the container runs, while etcd is frozen' 1 lives
    expect '... and writes on' 5 goes_on
    expect '... its volume is mounted' 1 on_first_disk_on_machine
    expect 'the device is refused, three times' 90 device_is_refused 3
    expect 'nothing was detached' 1 called_never detach
    etcd_returns
    expect 'kubelet mounts it again' 120 called mount Success 2
    sleep 5
    expect 'the same container, never restarted' 10 is_same
    expect '... on the same disk' 1 on_first_disk
    expect '... in its folder too' 1 on_first_disk_on_host
    expect '... writes' 5 goes_on
    expect '... and lost nothing' 1 lost_none
    expect 'the refusal has ended' 10 quiet unmountdevice
    expect 'the file is whole' 1 whole
    expect 'nothing was written beside it' 1 nothing_beside
}

# let_go: kubelet, restarted while etcd is frozen, has unmounted the pod's folder.
let_go() {
    stall
    expect 'kubelet unmounts the folder' 120 called unmount Success
    # What kubelet tears down is gone within half a second.
    sleep 2
}

# Killed, the container must be running again without a restart of kubelet.
comes_again() {
    kill -KILL "$pid"
    did 'the container is killed'
    expect 'kubelet starts it again by itself' 15 is_restarted
    expect '... on the same disk' 1 on_first_disk
    expect '... and it writes' 5 goes_on
    expect '... without loss' 1 lost_none
}

# device_is_refused AT LEAST: of repetitions the log has no line each.
device_is_refused() {
    saw=$(disk explain "$(volume_id)" 2>/dev/null | grep -o 'unmountdevice, [0-9]* times' | head -n 1)
    [[ -n $saw ]] && (($(awk '{ print $2 }' <<<"$saw") >= $1))
}

global_folder() { echo "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-$me"; }

on_first_disk_on_machine() {
    saw="disk $(disk_at "$(global_folder)" </proc/self/mountinfo)"
    [[ $saw == "disk $first_disk" ]]
}

# nothing_beside: no file of the node's own disk in any of the pods' folders of volumes.
nothing_beside() {
    local found
    found=$(find /var/lib/kubelet/pods -xdev -path '*/volumes/incloud~disk/*' -type f 2>/dev/null | head -n 3)
    saw=${found:-no file}
    [[ -z $found ]]
}

on_first_disk_on_host() {
    saw="disk $(disk_on_host)"
    [[ $saw == "disk $first_disk" ]]
}

control_incident() {
    configure off off
    decisive='... and writes on'
}

# wants_to_unmount: by kubelet's own log, whichever driver answers.
wants_to_unmount() {
    saw=$(grep -c "UnmountVolume started for volume \"pv-$me\"" "$part_logs/kubelet.log")
    ((saw > 0))
}

lives() {
    saw="pid $pid"
    runs_as "$pid"
}

# called_never WORD...: for a volume of this row. The last call of the row before may end late.
called_never() {
    local word count=0
    for word in "$@"; do
        count=$((count + $(calls | awk -v word="$word" -v mine="-$me" '$2 == word && (index($NF, mine) || $NF == "own")' | wc -l)))
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
    put_away
    expect '... and the pod is gone' 120 is_gone
}

# What a refused unmount left behind: kubelet 1.20 took the mount over without the claim, under the
# PersistentVolume's name instead of the pod's for its volume; so it waited for a mount that was there,
# and did nothing else for this pod, until it was restarted (kubernetes issue 103143).
play_incident_care() {
    begin
    stall
    expect 'kubelet wants to unmount' 120 wants_to_unmount
    sleep 2
    etcd_returns
    until_true 60 node_is_ready || fail 'the node is not ready'
    comes_again
    put_away
}

# As the driver answered before.
control_incident_care() {
    stand_before "[ \"\$1\" != unmount ] || [ ! -e /run/refuses ] || {
    echo '{\"status\":\"Failure\",\"message\":\"the pod still runs\"}'
    exit
}"
    : >/run/refuses
    decisive='kubelet starts it again by itself'
    patience=60
}

# Only a restart ends it.
put_back_incident_care() {
    rm -f /run/refuses
    stop_part kubelet
    start_kubelet
    expect 'kubelet restarted: the container is up again' 120 is_up
}

# A container that crashes in the outage waits for its end, and no longer.
play_incident_crash() {
    begin
    let_go
    kill -KILL "$pid"
    did 'the container is killed, while etcd is frozen'
    sleep 5
    etcd_returns
    expect 'kubelet starts it again by itself' 120 is_restarted
    expect '... and it writes' 5 goes_on
    expect '... without loss' 1 lost_none
    expect '... on its volume' 1 on_its_volume
    expect 'the file is whole' 1 whole
    expect 'nothing was written beside it' 1 nothing_beside
    put_away
}

# Torn down under it, it loses what it writes until it crashes.
control_incident_crash() {
    configure off off
    decisive='... without loss'
}

# As often as may be: each start of kubelet takes over what the one before left.
play_incident_restarts() {
    local turn
    begin
    let_go
    for turn in 2 3; do
        stop_part kubelet
        start_kubelet
        did "kubelet restarted once more ($turn), while etcd is frozen"
        sleep 8
    done
    expect 'the container runs and writes' 5 goes_on
    expect 'nothing was detached' 1 called_never detach
    etcd_returns
    expect 'kubelet mounts it again' 120 called mount Success 2
    sleep 5
    expect 'the same container, never restarted' 10 is_same
    comes_again
    put_away
}

control_incident_restarts() {
    configure off off
    decisive='the container runs and writes'
}

# By subPath, read-only, with each propagation, and with a group that kubelet gives the files to.
play_incident_kinds() {
    volume_mounts='[{name: data, mountPath: /data}, {name: data, mountPath: /sub, subPath: part}'
    volume_mounts+=', {name: data, mountPath: /ro, readOnly: true}'
    volume_mounts+=', {name: data, mountPath: /follows, mountPropagation: HostToContainer}'
    volume_mounts+=', {name: data, mountPath: /shares, mountPropagation: Bidirectional}]'
    pod_security='{fsGroup: 2000}' container_security='{privileged: true}'
    begin
    expect 'it has the volume at five places' 1 has_five_mounts
    let_go
    expect 'the container writes on' 5 goes_on
    expect '... and has all five' 1 has_five_mounts
    etcd_returns
    expect 'kubelet mounts it again' 120 called mount Success 2
    sleep 5
    expect 'the same container, never restarted' 10 is_same
    expect '... has all five' 1 has_five_mounts
    comes_again
    expect '... and has all five' 1 has_five_mounts
    expect 'nothing was written beside it' 1 nothing_beside
    put_away
}

control_incident_kinds() {
    configure off off
    decisive='the container writes on'
}

has_five_mounts() {
    saw=$(awk -v disk="$(disk_in_container)" '$3 == disk { print $5 }' "/proc/$pid/mountinfo" | sort | tr '\n' ' ')
    [[ $saw == '/data /follows /ro /shares /sub ' ]]
}

# kubelet does not know the volume any more, and the pod is gone: only the timer asks for its end.
play_incident_forgotten() {
    forgotten --force --grace-period 0
    # kubelet sees such a pod once more, and may take its volume down itself.
    forgotten --grace-period 2
}

# forgotten DELETE-OPTION...
forgotten() {
    begin
    let_go
    local old=$pid
    stop_part kubelet
    thaw_etcd
    told delete --ignore-not-found statefulset "$me" --wait=false
    told delete --ignore-not-found pod "$me-0" --wait=false "$@"
    did "kubelet stopped, etcd goes on, the pod deleted ($*)"
    start_kubelet
    did 'kubelet started: it does not know the volume any more'
    expect 'its container ends' 60 not runs_as "$old"
    expect 'the timer takes the volume down within its minute' 60 timer_takes_it_down
    expect 'nothing was written beside it' 1 nothing_beside
    told delete --ignore-not-found pvc "data-$me-0" --wait=false || true
    told delete --ignore-not-found pv "pv-$me" --wait=false || true
    disk local delete "vol-$me" >/dev/null || fail 'the volume cannot be deleted'
    until_true 60 is_gone || fail 'the pod is not gone'
    until_true 60 claim_is_gone || fail 'its claim is not gone'
}

claim_is_gone() { ! kubectl get pvc "data-$me-0" >/dev/null 2>&1 && ! kubectl get pv "pv-$me" >/dev/null 2>&1; }

# timer_takes_it_down: as the timer does, unless there is none.
timer_takes_it_down() {
    sleep 5
    [[ -n $has_no_timer ]] || disk heal >/dev/null 2>&1
    is_attached_to - && is_unmounted_here
}

has_no_timer=''
control_incident_forgotten() {
    has_no_timer=yes
    decisive='the timer takes the volume down within its minute'
    patience=30
}

# No call does it: a person has to.
put_back_incident_forgotten() {
    has_no_timer=''
    expect 'disk heal takes the volume down' 60 timer_takes_it_down
}

play_controller_incident_forgotten() { play_incident_forgotten; }
control_controller_incident_forgotten() { control_incident_forgotten; }
put_back_controller_incident_forgotten() { put_back_incident_forgotten; }

is_restarted() {
    look || return 1
    saw="$restarts restarts, pid $pid"
    [[ $uid == "$first_uid" && $pid != "$first_pid" && $container != "$first_container" ]]
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
