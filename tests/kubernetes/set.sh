# A StatefulSet like the incident's, with its volume: made, looked at, put away.
# shellcheck shell=bash disable=SC2154 # what scene.sh, cluster.sh and play.sh set

# A scenario may want another kind.
fs_type=ext4 size=256
volume_mounts='[{name: data, mountPath: /data}]' pod_security='{}' container_security='{}'

# What a scenario with another cloud replaces: the volume's id, and how it is created and deleted.
volume_id() { echo "vol-$me"; }
create_in_cloud() { disk local create "$(volume_id)" --size "${size}M" >/dev/null; }
delete_in_cloud() { disk local delete "$(volume_id)" >/dev/null; }

# make_volume [ACCESS]: in the cloud, and its PersistentVolume, as in examples/.
make_volume() {
    create_in_cloud || fail "no volume in the cloud"
    apply <<YAML || fail "no PersistentVolume"
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-$me}
spec:
  capacity: {storage: ${size}Mi}
  accessModes: [${1:-ReadWriteOnce}]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: incloud
  claimRef: {namespace: default, name: data-$me-0}
  flexVolume:
    driver: incloud/disk
    fsType: $fs_type
    options: {volumeID: $(volume_id)}
YAML
}

# What the container does: it appends a number to a file five times a second, has it written to the
# disk, and says of each number that could not be written that it is lost.
# shellcheck disable=SC2016 # for the container's shell
writer='
    trap "exit 0" TERM
    f=${FILE:-/data/count}
    n=$(tail -n 1 $f 2>/dev/null); n=${n:-0}
    echo "began after $n"
    while :; do
        n=$((n + 1))
        { echo $n >>$f && sync -d $f; } 2>/dev/null || echo "lost $n"
        sleep 0.2
    done'

# make_set [ACCESS]
make_set() {
    apply <<YAML || fail "no StatefulSet"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: $me}
spec:
  serviceName: $me
  replicas: 1
  selector: {matchLabels: {app: $me}}
  template:
    metadata: {labels: {app: $me}}
    spec:
      hostNetwork: true
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 2
      securityContext: $pod_security
      # A node that is not heard of for a while is no reason to delete the pod.
      tolerations: [{operator: Exists}]
      nodeSelector: {kubernetes.io/hostname: node-a}
      containers:
        - name: writer
          image: localhost/box:1
          imagePullPolicy: Never
          command: ["/bin/sh", "-c", $(json "$writer")]
          securityContext: $container_security
          volumeMounts: $volume_mounts
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [${1:-ReadWriteOnce}]
        storageClassName: incloud
        resources: {requests: {storage: ${size}Mi}}
YAML
}

# make_rival: a pod on node-b that wants the same volume.
make_rival() {
    apply <<YAML || fail 'no second pod'
apiVersion: v1
kind: Pod
metadata: {name: $me-rival}
spec:
  nodeName: node-b
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 2
  tolerations: [{operator: Exists}]
  containers:
    - name: rival
      image: localhost/box:1
      imagePullPolicy: Never
      command: ["/bin/sh", "-c", $(json "$writer")]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-$me-0}}]
YAML
}

# json TEXT: as a string of JSON.
json() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//$'\n'/\\n}"
}

# look: sets what is known of the set's pod: uid, container, pid, restarts.
look() {
    uid='' container='' pid='' restarts='' pod_phase=''
    read -r uid pod_phase restarts container < <(kubectl get pod "$me-0" -o 'jsonpath={.metadata.uid} {.status.phase} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].containerID}' 2>/dev/null) || true
    container=${container#containerd://}
    [[ -n $container ]] || return 1
    pid=$(processes_of "$container" | head -n 1)
    [[ -n $pid ]]
}

# The main process of a container; it began first.
processes_of() {
    ctr -n k8s.io tasks ls 2>/dev/null | awk -v id="$1" '$1 == id && $3 == "RUNNING" { print $2 }'
}

is_up() { look && [[ $pod_phase == Running ]] && saw="pid $pid" && [[ -n $(last_number) ]]; }
# is_gone [POD]
is_gone() { ! kubectl get pod "${1:-$me-0}" >/dev/null 2>&1 && api_answers; }

# In the container, by its own mount: the last number, the disk's number, what it said.
last_number() { tail -n 1 "/proc/$pid/root/data/count" 2>/dev/null; }
disk_in_container() { disk_at /data <"/proc/$pid/mountinfo"; }
layers_in_container() { awk '$5 == "/data"' "/proc/$pid/mountinfo" | wc -l; }
pod_folder() { echo "/var/lib/kubelet/pods/$uid/volumes/incloud~disk/pv-$me"; }
disk_on_host() { disk_at "$(pod_folder)" </proc/self/mountinfo; }
# disk_at FOLDER: out of a table of mounts.
disk_at() { awk -v folder="$1" '$5 == folder { print $3 }'; }
lost_numbers() { cat /var/log/pods/"default_$me-0_$uid"/writer/*.log 2>/dev/null | grep -c ' lost ' || true; }

# begin [ACCESS]: a volume, a pod that writes, and what it was then, as `first_...`.
begin() {
    make_volume "$@"
    make_set "$@"
    expect "the StatefulSet's pod is up and writes" 90 is_up
    remember
    expect "... on its volume's disk" 1 on_its_volume
}

remember() {
    first_uid=$uid first_container=$container first_pid=$pid first_disk=$(disk_in_container)
}

on_its_volume() { is_its_disk "$(disk_in_container)"; }

# is_its_disk NUMBER: by the image that the loop device shows; not the machine's own disk, nor another's.
is_its_disk() {
    local image
    image=$(cat "/sys/dev/block/$1/loop/backing_file" 2>/dev/null)
    saw="disk $1${image:+, image ${image##*/}}"
    [[ ${image##*/} == "$(volume_id).img" ]]
}

goes_on() { grows last_number; }

# grows COMMAND...: new numbers come.
grows() {
    local before after
    before=$("$@")
    sleep 1
    after=$("$@")
    saw="number $before, then $after"
    [[ -n $before && -n $after ]] && ((after > before))
}

# is_same: the same pod, the same container, never restarted.
is_same() {
    look || return 1
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
    lost=$(lost_numbers)
    saw="$lost lost"
    [[ $lost == 0 ]]
}

whole() { has_all cat "$(pod_folder)/count"; }

# has_all COMMAND...: every number once, in its order, as the file on the disk has them.
has_all() {
    saw=$("$@" | awk 'NR > 1 && $1 != last + 1 { bad++ } { last = $1 } END { print NR " numbers, " bad + 0 " gaps" }')
    [[ $saw == *', 0 gaps' && $saw != '0 '* ]]
}

# --- the end ----------------------------------------------------------------------------------------

# put_away: everything that it made, by the usual way. That kubelet has also taken the pod out of the
# API is a check of its own, `is_gone`: it does so when the sandbox is removed, once a minute.
put_away() {
    look || true
    delete_set
    # A worker of kubelet's that waits for a volume hears of it after 2 min 3 s only.
    expect 'the pod deleted: the volume is detached' 180 is_detached
    told delete --ignore-not-found pvc "data-$me-0" --wait=false || true
    told delete --ignore-not-found pv "pv-$me" --wait=false || true
    delete_in_cloud || fail "the volume cannot be deleted"
}

delete_set() {
    told delete --ignore-not-found statefulset "$me" --wait=false || true
    told delete --ignore-not-found pod "$me-0" --wait=false || true
}

is_detached() {
    [[ -z $pid ]] || ! runs_as "$pid" || return 1
    is_attached_to - && is_unmounted_here
}

# is_attached_to NODE: `-` is none.
is_attached_to() {
    saw=$(disk local list | awk -v id="vol-$me" '$1 == id { print "attached to: " $4 }')
    [[ $saw == *": $1" ]]
}

is_unmounted_here() { ! grep -q "$(volume_id)[/ ]" /proc/self/mountinfo; }

# clear_away: after a scenario that failed, so that the next one begins clean.
clear_away() {
    step_aside
    [[ -e $driver_config || ! -e /run/driver.toml ]] || step_back
    kill -CONT "$(pid_of etcd)" 2>/dev/null || true
    until_true 60 api_answers || return 1
    runs kubelet || start_kubelet
    without_proxy
    [[ ! -e $bare ]] || put_back_kubeadm
    [[ ! -e $cloud ]] || openstack_ends
    told delete --ignore-not-found daemonset -n kube-system --all --wait=false || true
    told label node node-a incloud-disk/driver- || true
    told delete --ignore-not-found statefulset,pod --all --force --grace-period 0 || true
    sleep 15
    find /var/lib/kubelet/pods -xdev -path '*/volumes/incloud~disk/*' -name count -delete
    told delete --ignore-not-found pvc,pv --all --wait=false || true
    forget_second_node
}
