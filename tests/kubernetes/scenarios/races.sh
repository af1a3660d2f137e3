# A pod that goes and comes again on the same node faster than its volume is put away.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

# is_another: another pod than the one that was remembered is up.
is_another() {
    is_up && [[ $uid != "$first_uid" ]]
}

# went_on_after NUMBER [LOG]: the new pod found what the old one had written.
went_on_after() {
    local found
    found=$(sed -n 's/.* began after \([0-9]*\)$/\1/p' "${2:-/var/log/pods/default_$me-0_$uid/writer/0.log}" 2>/dev/null)
    saw="number $1 before, it began after $found"
    [[ -n $found ]] && ((found >= $1))
}

# again WHAT DELETE-OPTION...
again() {
    local what=$1 number
    shift
    number=$(last_number)
    told delete --ignore-not-found pod "$me-0" --wait=false "$@" || fail "the pod cannot be deleted"
    expect "$what: another pod is up" 90 is_another
    expect '... has what the old one wrote' 1 went_on_after "$number"
    expect '... and writes' 5 goes_on
    expect '... without loss' 1 lost_none
    remember
}

play_recreate() {
    local turn
    begin
    for turn in 1 2 3; do
        again "deleted ($turn)"
    done
    for turn in 1 2 3; do
        again "deleted by force ($turn)" --force --grace-period 0
    done
    again 'deleted with a second of grace' --grace-period 1
    expect 'it is one disk still, in one layer' 1 one_layer
    put_away
}

# The new pod stands on the machine's own disk, which is blank.
control_recreate() {
    rm -f /run/mounted-once
    stand_before "if [ \"\$1\" = mount ]; then
    if [ -e /run/mounted-once ]; then echo '{\"status\":\"Success\"}'; exit; fi
    : >/run/mounted-once
fi"
    decisive='... has what the old one wrote'
}

put_back_recreate() { sweep; }

one_layer() {
    saw="$(layers_in_container) layer"
    [[ $saw == '1 layer' ]]
}

play_orphan() {
    begin
    stop_part kubelet
    did 'kubelet stopped'
    local number folder old=$first_pid
    folder=$(global_folder)
    number=$(last_number)
    told delete --ignore-not-found pod "$me-0" --force --grace-period 0
    did 'the pod deleted by force, its container runs on'
    start_kubelet
    did 'kubelet started'
    lost_early=''
    expect 'its volume stays mounted until the old container has ended' 60 stays_until_end "$old" "$folder"
    expect 'another pod is up' 120 is_another
    expect '... has what the old one wrote' 1 went_on_after "$number"
    expect '... and writes' 5 goes_on
    expect 'it is one disk still, in one layer' 1 one_layer
    expect 'kubelet was let go of the old folder' 1 called unmount Success
    expect 'nothing was written beside it' 1 nothing_beside
    put_away
}

control_orphan() { control_recreate; }
put_back_orphan() { sweep; }

# No pod wants it any more, and its container ends late.
play_orphan_gone() {
    begin
    stop_part kubelet
    did 'kubelet stopped'
    local old=$first_pid
    told delete --ignore-not-found statefulset "$me" --wait=false
    told delete --ignore-not-found pod "$me-0" --force --grace-period 0
    did 'the pod deleted by force, its container runs on'
    start_kubelet
    did 'kubelet started'
    lost_early=''
    expect 'its volume stays mounted until the old container has ended' 60 stays_until_end "$old" "$(global_folder)"
    expect 'kubelet was let go of the folder' 1 called unmount Success
    expect '... and was refused the device' 1 called unmountdevice Failure
    expect 'the volume is detached at once' 10 is_detached
    expect 'nothing was written beside it' 1 nothing_beside
    put_away
}

control_orphan_gone() {
    configure off off
    decisive='its volume stays mounted until the old container has ended'
}

# stays_until_end PID FOLDER: what was seen once is not forgotten.
stays_until_end() {
    [[ -z $lost_early ]] || return 1
    while runs_as "$1"; do
        if ! grep -qF " $2 " /proc/self/mountinfo && runs_as "$1"; then
            saw="pid $1 runs, and the volume is not mounted"
            lost_early=yes
            return 1
        fi
        sleep 0.02
    done
    saw="pid $1 has ended"
}
