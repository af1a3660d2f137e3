# A program that keeps a file of the volume open, as Prometheus does: after a heal it still writes to the lost disk.
# shellcheck shell=bash disable=SC2034,SC2154,SC2317 # what the other files set and use; functions that a control replaces

# As the other writer, but the file is opened once.
keep_open() {
    # shellcheck disable=SC2016 # for the container's shell
    writer='
    trap "exit 0" TERM
    n=$(tail -n 1 /data/count 2>/dev/null); n=${n:-0}
    echo "began after $n"
    exec 3>>/data/count
    while :; do
        n=$((n + 1))
        { echo $n >&3 && sync -d /data/count; } 2>/dev/null || echo "lost $n"
        sleep 0.2
    done'
}

# lose_and_heal: its disk goes and comes back; the mounts are healed, the open file is not.
lose_and_heal() {
    disk local yank "vol-$me" >/dev/null || fail 'the disk cannot be pulled'
    stop_part kubelet
    start_kubelet
    did 'its disk is pulled, kubelet restarted'
    expect 'the mounts are healed' 120 is_half_healed
    expect 'what the container writes is lost' 5 loses
}

is_half_healed() {
    saw=$(disk status --json 2>/dev/null | grep -o '"half-healed"' | head -n 1)
    [[ -n $saw ]]
}

play_open_files() {
    keep_open
    begin
    lose_and_heal
    expect 'a dry run names the container' 5 dry_run_names "$pid"
    end_the_holders
    expect 'kubelet starts the container again in place' 60 is_restarted
    expect '... in the same pod' 1 is_same_pod
    expect '... and it writes' 5 goes_on
    expect '... on its volume' 1 on_its_volume
    expect 'nothing is harmed any more' 10 is_healthy

    lose_and_heal
    told delete pod "$me-0" --wait=false || fail 'the pod cannot be deleted'
    did 'and by kubectl delete pod'
    expect 'another pod is up and writes' 180 is_another_pod
    expect '... on its volume' 1 on_its_volume
    put_away
}

end_the_holders() {
    disk heal --end-holders "vol-$me" >/dev/null || fail "disk heal ended with $?"
    did 'disk heal --end-holders'
}

# Healed alone, the program goes on with the file of the lost disk.
control_open_files() {
    end_the_holders() {
        disk heal "vol-$me" >/dev/null
        did "disk heal ended with $?"
    }
    patience=15
    decisive='kubelet starts the container again in place'
}

# Ended by the driver itself after a heal, as heal.after says.
play_open_files_after() {
    heal_ends_holders
    keep_open
    begin
    disk local yank "vol-$me" >/dev/null || fail 'the disk cannot be pulled'
    stop_part kubelet
    start_kubelet
    did 'its disk is pulled, kubelet restarted; heal.after is signal:TERM'
    expect 'kubelet starts the container again in place' 120 is_restarted
    expect '... in the same pod' 1 is_same_pod
    expect '... and it writes' 5 goes_on
    expect '... on its volume' 1 on_its_volume
    put_back_open_files_after
    put_away
}

heal_ends_holders() { sed -i 's/^after = ""$/after = "signal:TERM"/' "$driver_config"; }

control_open_files_after() {
    heal_ends_holders() { :; }
    patience=15
    decisive='kubelet starts the container again in place'
}

put_back_open_files_after() { sed -i 's/^after = "signal:TERM"$/after = ""/' "$driver_config"; }

dry_run_names() {
    saw=$(disk heal --end-holders "vol-$me" --dry-run 2>/dev/null | grep -w "$1" | head -n 1)
    [[ -n $saw ]]
}

is_same_pod() {
    saw="pod $uid"
    [[ $uid == "$first_uid" ]]
}

is_another_pod() { is_up && [[ $uid != "$first_uid" ]]; }

is_healthy() {
    saw=$(disk status 2>/dev/null | grep "vol-$me\|pv-$me" | head -n 1)
    ! is_half_healed
}
