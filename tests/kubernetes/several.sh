# Several pods of one node, looked at together: one call of kubectl and one of ctr, however many they are.
#
# A scenario names them with `have_pod`; each runs the writer of set.sh, in a file of its own.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

several=()
# Not counted any more: it has ended. Not killed with the others: it is not started again.
declare -A volume_of=() file_of=() has_ended=() is_single=()
# As they were when they were remembered, and as they are.
declare -A uid_then=() pid_then=() container_then=() disk_then=()
declare -A uid_now=() pid_now=() container_now=()

# have_pod POD VOLUME [FILE]: its volume in the cloud and the file that it writes.
have_pod() {
    several+=("$1")
    volume_of[$1]=$2 file_of[$1]=${3:-/data/count}
}

# make_claim: of the PersistentVolume that make_volume makes, for pods that are not a set's.
make_claim() {
    apply <<YAML || fail 'no claim'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-$me-0}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: incloud
  volumeName: pv-$me
  resources: {requests: {storage: ${size}Mi}}
YAML
}

# make_pod POD VOLUME-SOURCE [RESTART-POLICY [NODE]]: a pod that no set makes again.
make_pod() {
    apply <<YAML || fail "no pod $1"
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  nodeName: ${4:-node-a}
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 2
  restartPolicy: ${3:-Always}
  tolerations: [{operator: Exists}]
  containers:
    - name: writer
      image: localhost/box:1
      imagePullPolicy: Never
      command: ["/bin/sh", "-c", $(json "$writer")]
      env: [{name: FILE, value: ${file_of[$1]}}]
      volumeMounts: [{name: own, mountPath: /data}]
  volumes: [{name: own, $2}]
YAML
}

# look_at_all: sets what is known of each of them.
look_at_all() {
    local name uid container id pid state
    local -A runs_as_pid=()
    uid_now=() pid_now=() container_now=()
    while read -r id pid state; do
        [[ $state != RUNNING ]] || runs_as_pid[$id]=$pid
    done < <(ctr -n k8s.io tasks ls 2>/dev/null)
    while read -r name uid container; do
        container=${container#containerd://}
        [[ -n $container ]] || continue
        uid_now[$name]=$uid container_now[$name]=$container pid_now[$name]=${runs_as_pid[$container]-}
    done < <(kubectl get pods -o 'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].containerID}{"\n"}{end}' 2>/dev/null)
}

# of_all COMMAND...: the command must be true of each pod that lives, whose name comes last; `saw` counts.
of_all() {
    local name right=0 all=0 wrong=''
    for name in "${several[@]}"; do
        [[ -z ${has_ended[$name]-} ]] || continue
        all=$((all + 1))
        if "$@" "$name"; then right=$((right + 1)); else wrong+=" $name"; fi
    done
    saw="$right of $all${wrong:+, and not$wrong}"
    ((right == all))
}

# number_of POD: the last that its container has written.
number_of() { tail -n 1 "/proc/${pid_then[$1]}/root${file_of[$1]}" 2>/dev/null; }

all_up() {
    look_at_all
    of_all is_one_up
}
is_one_up() { [[ -n ${pid_now[$1]-} && -n $(tail -n 1 "/proc/${pid_now[$1]}/root${file_of[$1]}" 2>/dev/null) ]]; }

remember_all() {
    local name
    for name in "${several[@]}"; do
        [[ -z ${has_ended[$name]-} ]] || continue
        uid_then[$name]=${uid_now[$name]} pid_then[$name]=${pid_now[$name]}
        container_then[$name]=${container_now[$name]}
        disk_then[$name]=$(disk_at /data <"/proc/${pid_now[$name]}/mountinfo")
    done
}

# all_write: each has written a further number.
all_write() {
    local name
    local -A before=()
    for name in "${several[@]}"; do before[$name]=$(number_of "$name"); done
    sleep 2
    of_all has_gone_on
}
has_gone_on() {
    local now
    now=$(number_of "$1")
    [[ -n $now ]] && ((now > before[$1]))
}

all_lost_none() { of_all has_lost_none; }
has_lost_none() { ! grep -qs ' lost ' /var/log/pods/"default_$1_${uid_then[$1]}"/writer/*.log; }

all_on_their_volumes() { of_all is_on_its_volume; }
is_on_its_volume() {
    local image
    image=$(cat "/sys/dev/block/$(disk_at /data <"/proc/${pid_then[$1]}/mountinfo")/loop/backing_file" 2>/dev/null)
    [[ ${image##*/} == "${volume_of[$1]}.img" ]]
}

all_the_same() {
    look_at_all
    of_all is_one_same
}
is_one_same() { [[ ${uid_now[$1]-} == "${uid_then[$1]}" && ${pid_now[$1]-} == "${pid_then[$1]}" ]]; }

all_have_folders() { of_all has_folder; }
has_folder() { grep -qF " /var/lib/kubelet/pods/${uid_then[$1]}/volumes/incloud~disk/" /proc/self/mountinfo; }

uptime_ms() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }

kill_all() {
    local name
    for name in "${several[@]}"; do
        [[ -n ${has_ended[$name]-}${is_single[$name]-} ]] || kill -KILL "${pid_then[$name]}"
    done
    killed_at=$(uptime_ms)
    did 'each container is killed'
}

# all_run_again: each in a new container. By the kernel's account of when its process began, for to look
# takes its time too.
all_run_again() {
    local name began last=0
    look_at_all
    of_all is_one_restarted || return 1
    for name in "${several[@]}"; do
        [[ -z ${has_ended[$name]-}${is_single[$name]-} ]] || continue
        began=$(sed 's/.*) //' "/proc/${pid_now[$name]}/stat" | awk '{ print $20 * 10 }')
        ((began <= last)) || last=$began
    done
    took=$((last - killed_at))
    saw+=", the last after $((took / 1000)).$((took / 100 % 10)) s"
}
is_one_restarted() {
    [[ -z ${is_single[$1]-} ]] || return 0
    [[ ${uid_now[$1]-} == "${uid_then[$1]}" && -n ${pid_now[$1]-} && ${pid_now[$1]} != "${pid_then[$1]}" ]]
}

# crash_and_come_again: without a restart of kubelet.
crash_and_come_again() {
    expect 'each has its folder' 120 all_have_folders
    kill_all
    expect 'kubelet starts each again by itself' 30 all_run_again
    expect '... within ten seconds' 1 took_no_longer 10
    remember_all
    expect '... on its volume' 1 all_on_their_volumes
    expect '... and each writes' 10 all_write
    expect '... without loss' 1 all_lost_none
}

# took_no_longer SECONDS
took_no_longer() {
    saw="$((took / 1000)).$((took / 100 % 10)) s"
    ((took <= $1 * 1000))
}

# unmounts_wanted VOLUME: how often kubelet wanted to unmount a pod's folder of it, by kubelet's own log.
unmounts_wanted() {
    tail -c "+$((kubelet_log_mark + 1))" "$part_logs/kubelet.log" | grep -c "UnmountVolume started for volume \"$1\""
}
mark_kubelet() { kubelet_log_mark=$(stat -c %s "$part_logs/kubelet.log" 2>/dev/null || echo 0); }

# wants_each VOLUME...: kubelet wants to unmount a folder of each.
wants_each() {
    local name right=0
    for name in "$@"; do
        (($(unmounts_wanted "$name") == 0)) || right=$((right + 1))
    done
    saw="$right of $#"
    ((right == $#))
}

# nothing_stays_refused: the last answer to each call was a success, or the timer took the volume down since,
# of which kubelet knows nothing; and kubelet has no failure to tell of.
nothing_stays_refused() {
    local wrong
    wrong=$(calls | awk '{ last[$2 " " $NF] = $3 } END { for (what in last) if (last[what] != "Success") print what }' |
        while read -r word object; do
            by_timer "${object#pv-}" || echo "$word $object"
        done | head -n 3)
    saw=${wrong:-nothing}
    [[ -z $wrong ]] || return 1
    mark_kubelet
    sleep 5
    wrong=$(tail -c "+$((kubelet_log_mark + 1))" "$part_logs/kubelet.log" | grep -c 'nestedpendingoperations.*failed. No retries')
    saw="nothing, and kubelet fails at $wrong things"
    ((wrong == 0))
}

# by_timer NAME: whether the timer took down the volume of this name.
by_timer() {
    driver_log | tail -n +$((marked + 1)) | grep -q "\"message\":\"kubelet let go of it and does not know it any more[^}]*\"volume\":\"vol-$1\""
}

# put_all_away [SECONDS]: all pods at once, and then what they had.
put_all_away() {
    local name
    for name in "${several[@]}"; do
        # The set's would be made again.
        told delete --ignore-not-found statefulset "${name%-0}" --wait=false || true
        told delete --ignore-not-found pod "$name" --wait=false || true
    done
    did 'all pods deleted'
    expect 'each volume is unmounted and detached' "${1:-60}" all_detached
    expect 'nothing was written beside it' 1 nothing_beside
    expect 'no call stays refused' 10 nothing_stays_refused
    told delete --ignore-not-found pvc,pv --all --wait=false || true
    for name in $(printf '%s\n' "${volume_of[@]}" | sort -u); do
        disk local delete "$name" >/dev/null || fail "the volume $name cannot be deleted"
    done
    # kubelet removes a sandbox once a minute.
    until_true 120 nothing_in_api || fail 'a pod or a volume stays in the API'
}

all_detached() {
    local left
    left=$(disk local list | awk -v like="vol-$me" 'index($1, like) == 1 && $4 != "-"' | wc -l)
    saw="$left attached"
    ((left == 0)) && ! grep -qE "(vol|pv)-${me}[-/ ]" /proc/self/mountinfo
}

nothing_in_api() { [[ -z $(kubectl get pods,pvc,pv -o name 2>/dev/null) ]] && api_answers; }
