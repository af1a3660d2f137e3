# A pod that goes and comes again on the same node faster than its volume is put away.
# shellcheck shell=bash disable=SC2154 # what scene.sh and cluster.sh set

# is_another NAME: another pod than the one that was remembered is up.
is_another() {
    is_up "$1" && [[ $uid != "$first_uid" ]]
}

# went_on_after NUMBER: the new pod found what the old one had written.
went_on_after() {
    local now
    now=$(last_number)
    saw="number $1 before, $now now"
    ((now >= $1))
}

# again NAME WHAT DELETE-OPTION...
again() {
    local name=$1 what=$2 number
    shift 2
    number=$(last_number)
    kubectl delete pod "$name-0" --wait=false "$@" >/dev/null 2>&1 || fail "the pod cannot be deleted"
    expect "$what: another pod is up" 90 is_another "$name"
    expect '... has what the old one wrote' 1 went_on_after "$number"
    expect '... and writes' 5 goes_on
    expect '... without loss' 1 lost_none "$name"
    remember
}

play_recreate() {
    local turn
    begin recreate
    for turn in 1 2 3; do
        again recreate "deleted ($turn)"
    done
    for turn in 1 2 3; do
        again recreate "deleted by force ($turn)" --force --grace-period 0
    done
    again recreate 'deleted with a second of grace' --grace-period 1
    expect 'it is one disk still, in one layer' 1 one_layer
    put_away recreate
}

one_layer() {
    saw="$(layers_in_container) layer"
    [[ $saw == '1 layer' ]]
}

play_orphan() {
    begin orphan
    stop_part kubelet
    did 'kubelet stopped'
    local number old=$first_pid
    number=$(last_number)
    kubectl delete pod orphan-0 --force --grace-period 0 >/dev/null 2>&1
    did 'the pod deleted by force, its container runs on'
    start_kubelet
    did 'kubelet started'
    expect 'another pod is up' 120 is_another orphan
    expect '... has what the old one wrote' 1 went_on_after "$number"
    expect '... and writes' 5 goes_on
    expect 'the old container has ended' 60 has_ended "$old"
    expect 'it is one disk still, in one layer' 1 one_layer
    put_away orphan
}

has_ended() {
    saw="pid $1"
    [[ ! -e /proc/$1 ]]
}
