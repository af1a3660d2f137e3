# The cluster's eyes: the verbs that look, called in the DaemonSet's containers; the plugin of kubectl over two
# nodes; node-problem-detector.
#
# Both nodes are of one kernel, so node-b sees processes of node-a that have the volume: there it is "leaked".
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

play_eyes() {
    start_second_node
    expect 'a second node is up, with a kubelet of its own' 60 node_is_ready node-b
    begin
    daemonset | if [[ $me == eyes ]]; then cat; else sed '/hostPID: true/d'; fi | apply || fail 'no DaemonSet'
    did 'the DaemonSet created'
    expect 'it runs on both nodes' 60 looks_from_both
    expect 'kubectl exec on node-a: the volume of its pod' 10 sees node-a "status" "vol-$me"
    expect '... as the node itself sees it' 1 is_seen_alike
    expect '... its facts' 1 sees node-a "explain vol-$me" 'verdict ok'
    expect '... doctor: the kubelet of that node' 1 sees node-a doctor "process $(pid_of kubelet);"
    expect 'kubectl exec on node-b: another node, with another kubelet' 5 sees node-b 'status --rows' 'node node-b '
    expect '... doctor: the kubelet of that node' 5 sees node-b doctor "process $(in_second cat "$pids/kubelet");"
    expect 'kubectl incloud: nothing is harmed on two nodes' 10 plugin_says 0 'on 2 nodes: 1 leaked, 1 ok'
    disk local yank "vol-$me" >/dev/null || fail 'the disk cannot be pulled'
    did 'the disk pulled under the running pod'
    expect 'kubectl incloud: the volume of node-a is dead' 10 plugin_says 1 "DEAD *node-a *default/$me-0"
    expect '... what to do' 1 plugin_says 1 "node-a[$] disk history vol-$me"
    expect '... explain, of the node that has it' 1 plugin_says 0 '^--- node-a$' explain "$me-0"
    expect '... and of that alone' 1 not plugin_says 0 '^--- node-b$' explain "$me-0"
    expect '... doctor, with an error for node-a' 1 plugin_says 1 'error *volumes' doctor
    reports
    attach_again
    expect 'attached again: healed, and the container writes on' 30 goes_on
    expect 'kubectl incloud: nothing is harmed' 10 plugin_says 0 'on 2 nodes: 1 leaked, 1 ok'
    second_is_silent
    put_away_eyes
}

# Without the node's processes a container cannot know whose mounts it is to see.
control_eyes() { decisive='kubectl exec on node-a: the volume of its pod'; }

put_away_eyes() {
    told delete --ignore-not-found daemonset -n kube-system incloud-disk --wait=false
    put_away
    forget_second_node
}

# --- what is seen ---------------------------------------------------------------------------------------

pod_on() {
    kubectl get pod -n kube-system -l app.kubernetes.io/name=incloud-disk --field-selector "spec.nodeName=$1,status.phase=Running" \
        -o 'jsonpath={.items[0].metadata.name}' 2>/dev/null
}

looks_from_both() {
    saw="$(pod_on node-a) $(pod_on node-b)"
    [[ $saw == incloud-disk-*\ incloud-disk-* ]]
}

# on NODE WORD...: in its container.
on() {
    local node=$1
    shift
    kubectl exec -n kube-system "$(pod_on "$node")" -c verify -- /disk node "$@" 2>&1
}

# sees NODE WORDS TEXT
sees() {
    local text
    # shellcheck disable=SC2086 # the words are words
    text=$(on "$1" $2)
    printf '%s\n--- %s: %s\n' "$text" "$1" "$2" >>"$part_logs/eyes.log"
    text=$(tr -s ' \n\t' ' ' <<<"$text")
    saw=$(grep -oF -- "$3" <<<"$text" | head -n 1)
    [[ -n $saw ]]
}

is_seen_alike() {
    local there here
    there=$(on node-a status --rows)
    here=$(disk status --rows)
    saw=$(wc -l <<<"$there")
    saw="$saw lines"
    [[ $there == "$here" ]]
}

# plugin_says STATUS PATTERN [WORD...]
plugin_says() {
    local status=$1 pattern=$2 text found=0
    shift 2
    text=$(PATH=/opt/project/examples:$PATH kubectl incloud "$@" 2>&1) || found=$?
    printf '%s\n--- status %d: %s\n' "$text" "$found" "$*" >>"$part_logs/eyes.log"
    saw=$(grep -oE -- "$pattern" <<<"$text" | head -n 1)
    [[ $found == "$status" && -n $saw ]]
}

reports() {
    rm -rf /run/reports
    expect 'kubectl incloud report: a file for each node' 30 plugin_says 0 'the reports are in' report --out /run/reports
    expect '... with the volume in the one of node-a' 1 grep -q "vol-$me" /run/reports/node-a.html
    expect '... and readable for their owner alone' 1 is_private /run/reports/node-b.html
}

is_private() {
    saw=$(stat -c %a "$1")
    [[ $saw == 600 ]]
}

attach_again() {
    local options="{\"kubernetes.io/fsType\":\"ext4\",\"kubernetes.io/pvOrVolumeName\":\"pv-$me\",\"kubernetes.io/readwrite\":\"rw\",\"volumeID\":\"vol-$me\"}"
    "$plugins/incloud~disk/disk" attach "$options" node-a >/dev/null
    did 'attached by hand, as kubelet would'
}

# A node whose containers do not answer.
second_is_silent() {
    stop_part_on_second kubelet
    expect 'the kubelet of node-b ended: it is shown as not seen' 60 plugin_says 3 'NOT-SEEN *node-b' --timeout 5
}

stop_part_on_second() {
    kill -TERM "$(in_second cat "$pids/$1")"
}

# --- node-problem-detector ------------------------------------------------------------------------------

# It is in no package: run.sh takes one that was built elsewhere.
skip_detector() {
    [[ -e /opt/images/detector.tar ]] || echo 'needs INCLOUD_DISK_NODE_PROBLEM_DETECTOR=PROGRAM'
}

play_detector() {
    begin
    detector | apply || fail 'no node-problem-detector'
    did 'node-problem-detector created'
    expect 'it sees that nothing is harmed' 60 condition_is False VolumeState 'no volume of this node is harmed'
    disk local yank "vol-$me" >/dev/null || fail 'the disk cannot be pulled'
    did 'the disk pulled under the running pod'
    expect 'the node has the condition' 30 condition_is True VolumeIsHarmed "dead (default/$me-0, pv-$me (vol-$me))"
    expect '... and an event' 10 has_event VolumeIsHarmed
    attach_again
    expect 'attached again: healed, and the container writes on' 30 goes_on
    expect 'the condition ends' 30 condition_is False VolumeState ''
    expect '... with an event' 10 has_event VolumeState
    put_away_detector
}

# A monitor that asks another program.
control_detector() { decisive='the node has the condition'; }

put_away_detector() {
    told delete --ignore-not-found daemonset -n kube-system node-problem-detector --wait=false
    put_away
}

# As in examples/, but each two seconds, and with the lab's way to the API server: it has no accounts of services.
detector() {
    local program=
    [[ $me == detector ]] || program='s|"path": ".*"|"path": "/bin/true"|'
    sed -e 's/"60s"/"2s"/' -e 's/"50s"/"1800ms"/' -e "$program" \
        -e 's/^\( *\)hostPID: true/&\n\1hostNetwork: true/' -e '/serviceAccountName/d' \
        -e 's|^\( *\)- --logtostderr|&\n\1- --apiserver-override='"$api"'?inClusterConfig=false\&insecure=true\&auth=/host/etc/kubernetes/kubeconfig|' \
        /opt/project/examples/node-problem-detector.yaml
}

# condition_is STATUS REASON MESSAGE
condition_is() {
    saw=$(kubectl get node node-a -o 'jsonpath={range .status.conditions[?(@.type=="VolumeHarmed")]}{.status} {.reason} {.message}{end}' 2>/dev/null)
    [[ $saw == "$1 $2 $3"* ]]
}

# has_event REASON
has_event() {
    saw=$(kubectl get events --all-namespaces -o 'jsonpath={range .items[?(@.source.component=="incloud-disk")]}{.type} {.reason} {.involvedObject.kind} {.involvedObject.name}: {.message}{"\n"}{end}' 2>/dev/null |
        grep -E "(^| )$1 " | tail -n 1)
    [[ -n $saw ]]
}
