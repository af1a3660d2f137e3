# A container that is being started in the very moment of the unmount: its runtime has made its mounts, and
# holds it before it has a root of its own.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

readonly slow_start=/run/slow-start is_starting=/run/is-starting
late=''

# hold_starts: from here on runc holds each container that it makes, as long as the file is there.
hold_starts() {
    cat >/usr/local/sbin/hold-start <<TEXT
#!/bin/sh
: >$is_starting
while [ -e $slow_start ]; do sleep 0.1; done
TEXT
    # A hook that the runtime calls when the mounts are made, and before it changes the root.
    cat >/usr/local/sbin/runc <<'TEXT'
#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
if "create" in words and "--bundle" in words and "late-" in words[-1] and os.path.exists("/run/slow-start"):
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    config.setdefault("hooks", {}).setdefault("createRuntime", []).append({"path": "/usr/local/sbin/hold-start"})
    with open(path, "w") as file:
        json.dump(config, file)
os.execv("/usr/sbin/runc", ["runc"] + words)
TEXT
    chmod 755 /usr/local/sbin/{runc,hold-start}
    rm -f "$is_starting"
    : >"$slow_start"
}

# start_late: a further container of the pod, as kubelet has it made. Not by kubelet: what it began to start
# the runtime ends with it.
start_late() {
    ctr -n k8s.io run --detach --env FILE=/data/late \
        --cgroup "/$RUN/kubepods/besteffort/pod$first_uid/late-$me" \
        --mount "type=bind,src=$(pod_folder),dst=/data,options=rbind:rw" \
        localhost/box:1 "late-$me" /bin/sh -c "$writer" >>"$part_logs/late.log" 2>&1 </dev/null &
}

# is_held: the process that becomes the container has the volume, at a place below the machine's own root.
is_held() {
    [[ -e $is_starting ]] || return 1
    local one
    for one in $(find /sys/fs/cgroup -path "*/pod$first_uid/late-$me/cgroup.procs" -exec cat {} + 2>/dev/null | sort -u); do
        if grep -q "/rootfs/data .*/vol-$me " "/proc/$one/mountinfo" 2>/dev/null; then
            late=$one
            saw="pid $late"
            return 0
        fi
    done
    return 1
}

late_number() { tail -n 1 "/proc/$late/root/data/late" 2>/dev/null; }
late_goes_on() { grows late_number; }
late_is_on_its_volume() { is_its_disk "$(disk_at /data <"/proc/$late/mountinfo")"; }

end_late() {
    rm -f "$slow_start" /usr/local/sbin/runc
    ctr -n k8s.io tasks kill --signal KILL "late-$me" >/dev/null 2>&1 || true
    until_true 10 ctr -n k8s.io containers rm "late-$me" >/dev/null 2>&1 || true
}

play_incident_starting() {
    begin
    hold_starts
    start_late
    expect 'a container is being started, and the runtime is at it' 60 is_held
    stall
    expect 'kubelet wants to unmount' 120 wants_to_unmount
    expect '... and the call has ended' 10 called unmount Success
    sleep 2
    expect 'the container is still being started' 1 is_held
    rm -f "$slow_start"
    did 'the runtime goes on'
    expect 'the container that was being started writes' 20 late_goes_on
    expect '... to its volume' 1 late_is_on_its_volume
    expect '... the other one too' 5 goes_on
    expect 'nothing was detached' 1 called_never detach
    etcd_returns
    expect 'kubelet mounts it again' 120 called mount Success 2
    comes_again
    expect '... beside the one that came late' 5 late_goes_on
    expect 'nothing was written beside it' 1 nothing_beside
    end_late
    put_away
}

control_incident_starting() {
    configure off off
    decisive='the container that was being started writes'
}

put_back_incident_starting() { end_late; }
