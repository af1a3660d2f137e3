# What a scenario is told with: the table of what was done and seen, volumes, pods, the driver's log.
# shellcheck shell=bash disable=SC2154 # what scene.sh and cluster.sh set

readonly driver_config=/etc/incloud-disk/config.toml

# --- telling --------------------------------------------------------------------------------------

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# row WORD DID SAW
row() {
    local took=$(($(now_ms) - ${row_began:-$(now_ms)}))
    printf '  %-62s %4d.%d s  %-5s  %s\n' "$2" $((took / 1000)) $((took / 100 % 10)) "$1" "${3-}"
    row_began=$(now_ms)
}

# did WHAT [SAW]: a step that needs no judgement.
did() { row '' "$@"; }
# seen WHAT SAW: a check that held.
seen() { row ok "$@"; }

# fail WHY: ends this scenario.
fail() {
    row WRONG "$1"
    exit 1
}

# expect WHAT SECONDS COMMAND...: the command must be true within that time; `saw` is shown.
expect() {
    local what=$1 seconds=$2
    shift 2
    saw=''
    until_true "$seconds" "$@" || {
        row WRONG "$what" "${saw:-not within $seconds s}"
        exit 1
    }
    seen "$what" "$saw"
}

# --- the driver's log -----------------------------------------------------------------------------

driver_log() { cat /var/log/incloud-volume/*.log 2>/dev/null || true; }

# mark: from here on `calls` looks.
mark() { marked=$(driver_log | wc -l); }

# calls: one line for each call that ended since the mark: time, word, object, answer, reason.
calls() {
    driver_log | tail -n +$((marked + 1)) |
        sed -nE 's/^[^T]*T([0-9:.]{12})[^ ]* +[A-Z]+ call\{id="[^"]*" op="([a-z]+)"\}: end: ([A-Za-z ]+) object="([^"]*)" duration_ms=([0-9]+) (kind="([a-z-]+)")?.*$/\1 \2 \3 \5ms \7 \4/p'
}

# times WORD ANSWER: how often.
times() { calls | awk -v word="$1" -v answer="$2" '$2 == word && $3 == answer' | wc -l; }

# called WORD ANSWER [AT LEAST]
called() {
    local count
    count=$(times "$1" "$2")
    saw="$count times"
    ((count >= ${3:-1}))
}

show_calls() {
    printf '  what was called:\n'
    calls | awk '
        { key = $2 " " $3 " " $5; line = $0 }
        key == last { count++; next }
        { if (count) printf "      ... and %d more the same\n", count; count = 0; print "    " line; last = key }
        END { if (count) printf "      ... and %d more the same\n", count }'
}

# --- the driver's configuration ---------------------------------------------------------------------

# configure GUARD HEAL
configure() {
    awk -v guard="$1" -v heal="$2" '
        /^\[/ { section = $0 }
        section == "[guard]" && /^mode/ { print "mode = \"" guard "\""; next }
        section == "[heal]" && /^mode/ { print "mode = \"" heal "\""; next }
        { print }' "$driver_config" >"$driver_config.new"
    chmod 600 "$driver_config.new"
    mv "$driver_config.new" "$driver_config"
}

disk() { "$plugins/incloud~disk/disk" "$@"; }

# --- a StatefulSet with its volume ------------------------------------------------------------------

# A scenario may want another kind.
fs_type=ext4 size=256

# make_volume NAME [ACCESS]: in the cloud, and its PersistentVolume, as in examples/.
make_volume() {
    disk local create "vol-$1" --size "${size}M" >/dev/null || fail "no volume in the cloud"
    kubectl apply -f - >/dev/null <<YAML || fail "no PersistentVolume"
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-$1}
spec:
  capacity: {storage: ${size}Mi}
  accessModes: [${2:-ReadWriteOnce}]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: incloud
  claimRef: {namespace: default, name: data-$1-0}
  flexVolume:
    driver: incloud/disk
    fsType: $fs_type
    options: {volumeID: vol-$1}
YAML
}

# What the container does: it appends a number to a file five times a second, has it written to the
# disk, and says of each number that could not be written that it is lost.
# shellcheck disable=SC2016 # for the container's shell
writer='
    trap "exit 0" TERM
    n=$(tail -n 1 /data/count 2>/dev/null); n=${n:-0}
    echo "began after $n"
    while :; do
        n=$((n + 1))
        { echo $n >>/data/count && sync -d /data/count; } 2>/dev/null || echo "lost $n"
        sleep 0.2
    done'

# make_set NAME [ACCESS]
make_set() {
    kubectl apply -f - >/dev/null <<YAML || fail "no StatefulSet"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: $1}
spec:
  serviceName: $1
  replicas: 1
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      hostNetwork: true
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 2
      # A node that is not heard of for a while is no reason to delete the pod.
      tolerations: [{operator: Exists}]
      nodeSelector: {kubernetes.io/hostname: node-a}
      containers:
        - name: writer
          image: localhost/box:1
          imagePullPolicy: Never
          command: ["/bin/sh", "-c", $(json "$writer")]
          volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [${2:-ReadWriteOnce}]
        storageClassName: incloud
        resources: {requests: {storage: ${size}Mi}}
YAML
}

# json TEXT: as a string of JSON.
json() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//$'\n'/\\n}"
}

# look NAME: sets what is known of the set's pod: uid, container, pid, restarts.
look() {
    uid='' container='' pid='' restarts='' pod_phase=''
    read -r uid pod_phase restarts container < <(kubectl get pod "$1-0" -o 'jsonpath={.metadata.uid} {.status.phase} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].containerID}' 2>/dev/null) || true
    container=${container#containerd://}
    [[ -n $container ]] || return 1
    pid=$(processes_of "$container" | head -n 1)
    [[ -n $pid ]]
}

# The main process of a container; it began first.
processes_of() {
    ctr -n k8s.io tasks ls 2>/dev/null | awk -v id="$1" '$1 == id && $3 == "RUNNING" { print $2 }'
}

is_up() { look "$1" && [[ $pod_phase == Running ]] && saw="pid $pid" && [[ -n $(last_number) ]]; }
is_gone() { ! kubectl get pod "$1-0" >/dev/null 2>&1 && api_answers; }

# In the container, by its own mount: the last number, the disk's number, what it said.
last_number() { tail -n 1 "/proc/$pid/root/data/count" 2>/dev/null; }
disk_in_container() { awk '$5 == "/data" { print $3 }' "/proc/$pid/mountinfo"; }
layers_in_container() { awk '$5 == "/data"' "/proc/$pid/mountinfo" | wc -l; }
pod_folder() { echo "/var/lib/kubelet/pods/$uid/volumes/incloud~disk/pv-$1"; }
disk_on_host() { awk -v folder="$(pod_folder "$1")" '$5 == folder { print $3 }' /proc/self/mountinfo; }
lost_numbers() { cat /var/log/pods/default_"$1"-0_"$uid"/writer/*.log 2>/dev/null | grep -c ' lost ' || true; }

# begin NAME [ACCESS]: a volume, a pod that writes, and what it was then, as `first_...`.
begin() {
    make_volume "$@"
    make_set "$@"
    expect "the StatefulSet's pod is up and writes" 90 is_up "$1"
    remember
}

remember() {
    first_uid=$uid first_container=$container first_pid=$pid first_disk=$(disk_in_container)
}

# goes_on: new numbers come.
goes_on() {
    local before after
    before=$(last_number)
    sleep 1
    after=$(last_number)
    saw="number $before, then $after"
    [[ -n $before && -n $after ]] && ((after > before))
}

# is_same NAME: the same pod, the same container, never restarted.
is_same() {
    look "$1" || return 1
    saw="$restarts restarts, pid $pid"
    [[ $uid == "$first_uid" && $container == "$first_container" && $pid == "$first_pid" && $restarts == 0 ]]
}

# on_first_disk: no other mount stands there.
on_first_disk() {
    local now
    now=$(disk_in_container)
    saw="disk $now, one layer"
    [[ $now == "$first_disk" && $(layers_in_container) == 1 ]]
}

lost_none() {
    local lost
    lost=$(lost_numbers "$1")
    saw="$lost lost"
    [[ $lost == 0 ]]
}

# whole NAME: every number once, in its order, as the file on the disk has them.
whole() {
    local folder
    folder=$(pod_folder "$1")
    saw=$(awk 'NR > 1 && $1 != last + 1 { bad++ } { last = $1 } END { print NR " numbers, " bad + 0 " gaps" }' "$folder/count")
    [[ $saw == *', 0 gaps' && $saw != '0 '* ]]
}

# put_away NAME: everything that it made, by the usual way.
put_away() {
    kubectl delete statefulset "$1" --wait=false >/dev/null 2>&1 || true
    kubectl delete pod "$1-0" --wait=false >/dev/null 2>&1 || true
    # A worker of kubelet's that waits for a volume hears of it after 2 min 3 s only.
    expect "deleted: the pod is gone" 180 is_gone "$1"
    expect "... and the volume is detached" 60 is_detached "$1"
    kubectl delete pvc "data-$1-0" --wait=false >/dev/null 2>&1 || true
    kubectl delete pv "pv-$1" --wait=false >/dev/null 2>&1 || true
    disk local delete "vol-$1" >/dev/null || fail "the volume cannot be deleted"
}

is_detached() {
    saw=$(disk local list | awk -v id="vol-$1" '$1 == id { print "attached to: " $4 }')
    [[ $saw == *': -' ]] && ! grep -q "vol-$1[/ ]" /proc/self/mountinfo
}

# clear_away: after a scenario that failed, so that the next one begins clean.
clear_away() {
    kill -CONT "$(pid_of etcd)" 2>/dev/null || true
    until_true 60 api_answers || return 1
    runs kubelet || start_kubelet
    kubectl delete statefulset,pod --all --force --grace-period 0 >/dev/null 2>&1 || true
    sleep 15
    kubectl delete pvc,pv --all --wait=false >/dev/null 2>&1 || true
    kubectl delete node node-b >/dev/null 2>&1 || true
}
