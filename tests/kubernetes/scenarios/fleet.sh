# The driver rolled out over two nodes as over two hundred: the kustomize overlays of examples/, and `kubectl incloud
# roll-out`. A wrong configuration stops at the first node; pods that write on both notice nothing.
#
# Each node has a driver, a configuration and a memory of its own.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

readonly fleet=/run/fleet secret=s3cret-of-the-fleet

play_fleet() {
    build_of_before
    second_driver=own
    start_second_node
    expect 'a second node is up, with a kubelet and a driver of its own' 60 node_is_ready node-b
    begin
    second_pod
    expect 'a pod of node-b is up and writes' 90 second_pod_is_up
    second_uid=$(uid_of_second) second_pid=$(pid_of_second)
    filled_in
    expect 'the API server takes the base and each overlay' 30 all_taken
    wrong_from_the_first
    first_roll_out
    changed_configuration
    wrong_configuration
    mended
    node_not_ready
    ended_in_the_middle
    rolled_back
    by_chart
    put_away_fleet
}

# Without the label, and with an update that goes on by itself: the bound is four nodes, not one.
control_fleet() {
    patience=20
    decisive='node-b has no pod of it'
}

# --- as a person does it --------------------------------------------------------------------------------

# Other bytes than those of the image.
build_of_before() {
    cp "$driver_config" "$driver_config.of-before"
    cp /opt/release/disk /run/before
    printf 'the build of before' >>/run/before
    sh /opt/release/install.sh upgrade --plugin-dir "$plugins" --binary /run/before >>"$part_logs/install.log" 2>&1 ||
        fail 'the build of before cannot be installed'
    did 'another build of the driver on both nodes'
}

# The overlays as they are, for the cloud of these nodes; the intervals are for a test's patience.
filled_in() {
    rm -rf "$fleet"
    cp -r /opt/project/examples/kustomize "$fleet"
    patiently <"$fleet/base/daemonset.yaml" >"$fleet/patient" && mv "$fleet/patient" "$fleet/base/daemonset.yaml"
    configured 's/^max_files = .*/max_files = 15/'
    (umask 077 && sed "s/replace-me/$secret/" "$fleet/overlays/openstack/cloud.conf.example" >"$fleet/overlays/openstack/cloud.conf")
}

# configured EXPRESSION: the configuration of before, but for that.
configured() {
    sed -e 's|^# cloud_conf = .*|cloud_conf = "/etc/incloud-disk/cloud.conf"|' -e "$1" "$driver_config.of-before" \
        >"$fleet/overlays/openstack/config.toml"
}

# apply_overlay [NAME]
apply_overlay() {
    until_true 30 overlay_applied "${1:-canary}" || fail 'the API server does not take the overlay'
    did "kubectl apply -k overlays/${1:-canary}"
}
overlay_applied() { kubectl apply -k "$fleet/overlays/$1" >>"$part_logs/fleet.log" 2>&1; }

# roll_out_says STATUS PATTERN [WORD...]
roll_out_says() {
    local status=$1 pattern=$2
    shift 2
    plugin_says "$status" "$pattern" roll-out --timeout 90 "$@"
}

# was_told TEXT: by the last roll-out.
was_told() {
    saw=$(tail -n 20 "$part_logs/eyes.log" | grep -oF -- "$1" | tail -n 1)
    [[ -n $saw ]]
}

all_taken() {
    local name
    saw=''
    for name in base overlays/local overlays/openstack overlays/canary; do
        kubectl kustomize "$fleet/$name" | kubectl apply --server-side --dry-run=server -f - >"$fleet.said" 2>&1 || return 1
        saw+="$(wc -l <"$fleet.said") "
    done
    saw="objects: $saw"
}

# --- what is played ---------------------------------------------------------------------------------------

# The very first pods are refused: both nodes keep the driver that was there.
wrong_from_the_first() {
    configured 's/^max_files = .*/max_files = "many"/'
    if [[ $me == fleet ]]; then
        apply_overlay
        expect 'no node has a pod of it' 10 has_pods ''
        expect 'roll-out --dry-run: a first node, then the other' 10 roll_out_says 0 '^node-b$' --dry-run
        expect '... and no node has a pod of it' 1 has_pods ''
        expect 'a wrong configuration: roll-out stops at the first node' 1 roll_out_says 1 'stopped at node-a: its installation'
        expect '... and says what was refused there' 1 was_told 'log.max_files: expected an integer, found a string'
    else
        apply_overlay openstack
        expect 'node-a has a pod of it' 30 is_pod_on node-a "$(pod_uid_on node-a)"
    fi
    expect 'node-b has no pod of it' 1 has_pods node-a
    both_as_before
}

both_as_before() {
    expect 'both have the driver of before' 1 cmp -s "$plugins/incloud~disk/disk" /run/before
    expect '... on node-b too' 1 in_second cmp -s "$plugins/incloud~disk/disk" /run/node-a-before
    expect '... and the configuration of before' 1 cmp -s "$driver_config" "$driver_config.of-before"
    expect '... on node-b too' 1 in_second cmp -s "$driver_config" "$driver_config.of-before"
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

first_roll_out() {
    configured 's/^max_files = .*/max_files = 15/'
    apply_overlay
    expect 'put right: roll-out goes to both nodes' 1 roll_out_says 0 '2 of 2 nodes have the revision'
    expect 'the driver of the image is on node-a' 1 is_installed
    expect '... and on node-b' 1 in_second cmp -s "$plugins/incloud~disk/disk" /opt/release/disk
    expect 'the configuration is on both' 1 both_have_configuration
    expect 'the credentials are on both, for root alone' 1 both_have_credentials
    expect '... and in no pod, event, log or ConfigMap' 1 nowhere_told
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

changed_configuration() {
    configured 's/^max_files = .*/max_files = 16/'
    apply_overlay
    sleep 3
    expect 'a changed configuration waits for a person' 1 not both_have_configuration
    expect 'roll-out: both nodes' 1 roll_out_says 0 '2 of 2 nodes have the revision' --batch 1
    expect '... have it' 1 both_have_configuration
    expect '... and kept the one of before' 1 grep -q '^max_files = 15' /etc/incloud-disk/config.toml.before
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

wrong_configuration() {
    local before
    before=$(pod_uid_on node-b)
    configured 's/^max_files = .*/max_files = "many"/'
    apply_overlay
    expect 'an upgrade that is refused: roll-out stops at the first node' 1 roll_out_says 1 'stopped at node-a: its installation'
    expect '... and says what was refused there' 1 was_told 'log.max_files: expected an integer, found a string'
    expect 'node-b has its pod of before' 1 is_pod_on node-b "$before"
    expect 'both have the driver of the image' 1 is_installed
    expect '... and the configuration of before' 1 grep -q '^max_files = 16' "$driver_config"
    expect '... on node-b too' 1 in_second grep -q '^max_files = 16' "$driver_config"
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

mended() {
    configured 's/^max_files = .*/max_files = 17/'
    apply_overlay
    expect 'put right: roll-out goes on, the node of before first' 1 roll_out_says 0 '2 of 2 nodes have the revision'
    expect '... on both' 1 both_have_configuration
}

node_not_ready() {
    local before
    stop_part_on_second kubelet
    expect 'the kubelet of node-b ended: the node is not ready' 90 not node_is_ready node-b
    before=$(pod_uid_on node-b)
    configured 's/^max_files = .*/max_files = 18/'
    apply_overlay
    expect 'roll-out stops at a node that is not ready' 1 roll_out_says 1 'stopped at node-b: the node itself is not ready'
    expect '... after the other one' 1 grep -q '^max_files = 18' "$driver_config"
    expect '... and node-b was left alone' 1 is_pod_on node-b "$before"
    kill -USR1 "$(pid_of node-b)"
    expect 'the kubelet of node-b runs again' 60 node_is_ready node-b
    expect 'roll-out goes on' 1 roll_out_says 0 '2 of 2 nodes have the revision'
    expect 'both pods wrote on, and lost nothing' 10 both_unnoticed
}

# A drain leaves it, an eviction does not; and pods are killed while they install.
ended_in_the_middle() {
    local before round
    before=$(pod_uid_on node-b)
    expect 'kubectl drain passes it over' 30 drained
    expect '... the same pod' 1 is_pod_on node-b "$before"
    told uncordon node-b
    for round in 1 2 3; do
        expect 'a pod of it runs on node-b' 60 runs_on_second
        in_second sh -c "cp /run/node-a-before '$plugins/incloud~disk/.disk.of-test' && mv '$plugins/incloud~disk/.disk.of-test' '$plugins/incloud~disk/disk'" ||
            fail 'the build of before cannot be put on node-b'
        before=$(pod_uid_on node-b)
        evict
        expect 'evicted: another pod installs it, and is killed at it' 60 installation_is_killed "$before"
        expect "... $round: a whole driver" 1 is_whole_on_second
    done
    expect 'the next pod installs it' 90 in_second cmp -s "$plugins/incloud~disk/disk" /opt/release/disk
    expect 'roll-out: all is well' 1 roll_out_says 0 '2 of 2 nodes have the revision'
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

rolled_back() {
    expect 'roll-back --to 1 on both nodes' 1 plugin_says 0 'node-b: ' roll-back --to 1
    expect 'the driver of before is on node-a' 1 cmp -s "$plugins/incloud~disk/disk" /run/before
    expect '... and its pods are gone' 60 has_pods ''
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}

# The objects of the chart instead of the overlays', made by Helm's own code where that is at hand.
by_chart() {
    if [[ ! -e /opt/images/helm.so ]]; then
        did 'the chart is left out: HELM_LIBRARY names no library'
        return
    fi
    told delete daemonset -n kube-system incloud-disk
    configured 's/^max_files = .*/max_files = 19/'
    python3 - "$fleet/overlays/openstack" >"$fleet.values" <<'PYTHON' || fail 'no values for the chart'
import json, sys
text = lambda name: open(sys.argv[1] + "/" + name, encoding="utf-8").read()
print(json.dumps({"config": text("config.toml"), "credentials": text("cloud.conf"), "byHand": True}))
PYTHON
    python3 /opt/project/tests/support/helm.py /opt/images/helm.so /opt/project/examples/helm/incloud-disk "$fleet.values" \
        2>>"$part_logs/fleet.log" | sed 's/^/{"apiVersion": "v1", "kind": "List", "items": /; s/$/}/' >"$fleet.objects"
    expect 'the API server takes what the chart makes' 30 chart_applied
    expect 'roll-out goes to both nodes' 1 roll_out_says 0 '2 of 2 nodes have the revision'
    expect 'the driver of the image is on node-a' 1 is_installed
    expect '... and on node-b' 1 in_second cmp -s "$plugins/incloud~disk/disk" /opt/release/disk
    expect 'the configuration is on both' 1 both_have_configuration
    expect 'both pods wrote on, and lost nothing' 5 both_unnoticed
}
chart_applied() {
    kubectl apply -f "$fleet.objects" >"$fleet.said" 2>&1
    local status=$?
    saw=$(tail -n 1 "$fleet.said")
    cat "$fleet.said" >>"$part_logs/fleet.log"
    return "$status"
}

# --- what is there ------------------------------------------------------------------------------------------

# has_pods NODES
has_pods() {
    saw=$(kubectl get pods -n kube-system -l app.kubernetes.io/name=incloud-disk -o 'jsonpath={.items[*].spec.nodeName}') || return 1
    [[ $saw == "$1" ]]
}

pod_uid_on() {
    kubectl get pod -n kube-system -l app.kubernetes.io/name=incloud-disk --field-selector "spec.nodeName=$1" \
        -o 'jsonpath={.items[0].metadata.uid}' 2>/dev/null
}

is_pod_on() {
    saw=$(pod_uid_on "$1")
    [[ -n $saw && $saw == "$2" ]]
}

both_have_configuration() {
    cmp -s "$driver_config" "$fleet/overlays/openstack/config.toml" &&
        in_second cat "$driver_config" | cmp -s - "$fleet/overlays/openstack/config.toml"
}

both_have_credentials() {
    local file=/etc/incloud-disk/cloud.conf
    saw="$(stat -c '%a %U' "$file") $(in_second stat -c '%a %U' "$file")"
    [[ $saw == '600 root 600 root' ]] && grep -q "$secret" "$file" && in_second grep -q "$secret" "$file"
}

# As it is, and as a Secret holds it.
nowhere_told() {
    local hidden
    hidden=$(base64 -w 0 "$fleet/overlays/openstack/cloud.conf" | cut -c 1-60)
    kubectl get pods,daemonsets,controllerrevisions,configmaps,events,nodes --all-namespaces -o yaml >"$fleet.said" || return 1
    cat /var/log/pods/*/*/*.log "$second_logs"/pods/*/*/*.log /var/log/incloud-volume/* "$second_logs"/incloud-volume/* >>"$fleet.said" 2>/dev/null
    saw="$(wc -c <"$fleet.said") bytes"
    grep -q 'as installed' "$fleet.said" && ! grep -qF -e "$secret" -e "$hidden" "$fleet.said"
}

both_unnoticed() {
    is_same && lost_none && goes_on && second_unnoticed
}

drained() {
    kubectl drain node-b --ignore-daemonsets --pod-selector app.kubernetes.io/name=incloud-disk >"$fleet.said" 2>&1 || return 1
    saw=$(grep -o 'ignoring DaemonSet.*' "$fleet.said" | head -n 1)
    [[ -n $saw ]]
}

evict() {
    local name
    name=$(pod_on node-b)
    printf '{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"%s","namespace":"kube-system"}}' "$name" >"$fleet.evict"
    told create --raw "/api/v1/namespaces/kube-system/pods/$name/eviction" -f "$fleet.evict"
}

runs_on_second() {
    saw=$(pod_on node-b)
    [[ -n $saw ]]
}

# installation_is_killed UID: as soon as it is there, as by force or for a lack of memory; or another pod than that one
# has done its work already.
installation_is_killed() {
    local round process
    for round in {1..100}; do
        process=$(pgrep -f '^/disk node install' | head -n 1)
        if [[ -n $process ]]; then
            kill -KILL "$process" 2>/dev/null || true
            saw="process $process"
            return
        fi
    done
    saw='done already'
    [[ $(pod_uid_on node-b) != "$1" ]] && ! in_second cmp -s "$plugins/incloud~disk/disk" /run/node-a-before
}

is_whole_on_second() {
    local driver="$plugins/incloud~disk/disk"
    if in_second cmp -s "$driver" /opt/release/disk; then saw=new; else saw=before; fi
    [[ $saw == new ]] || in_second cmp -s "$driver" /run/node-a-before
}

# --- the pod of node-b -----------------------------------------------------------------------------------------

second_pod() {
    disk local create "vol-$me-b" --size 256M >/dev/null || fail 'no volume in the cloud'
    have_pod "$me-b" "vol-$me-b"
    make_pod "$me-b" "flexVolume: {driver: incloud/disk, fsType: ext4, options: {volumeID: vol-$me-b}}" Always node-b
    in_second sh -c 'cat >/run/node-a-before' </run/before
}

uid_of_second() { kubectl get pod "$me-b" -o 'jsonpath={.metadata.uid}' 2>/dev/null; }

pid_of_second() {
    local id
    id=$(kubectl get pod "$me-b" -o 'jsonpath={.status.containerStatuses[0].containerID}' 2>/dev/null)
    in_second ctr -n k8s.io tasks ls 2>/dev/null | awk -v id="${id#containerd://}" '$1 == id && $3 == "RUNNING" { print $2 }'
}

second_number() { tail -n 1 "/proc/$second_pid/root/data/count" 2>/dev/null; }

second_pod_is_up() {
    second_pid=$(pid_of_second)
    [[ -n $second_pid && -n $(second_number) ]]
}

second_unnoticed() {
    [[ $(uid_of_second) == "$second_uid" && $(pid_of_second) == "$second_pid" ]] || return 1
    ! grep -qs ' lost ' "$second_logs/pods/default_$me-b_$second_uid"/writer/*.log || return 1
    grows second_number
}

# --- the end ------------------------------------------------------------------------------------------------------

put_away_fleet() {
    told delete --ignore-not-found daemonset -n kube-system incloud-disk --wait=false
    told label node node-a incloud-disk/driver-
    told label node node-b incloud-disk/driver-
    told delete --ignore-not-found configmap,secret -n kube-system --all --wait=false
    told delete --ignore-not-found pod "$me-b" --wait=false
    expect 'the pod of node-b deleted: its volume is detached' 180 volume_is_free "vol-$me-b"
    disk local delete "vol-$me-b" >/dev/null || fail 'the volume cannot be deleted'
    put_away
    forget_second_node
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
    cp "$driver_config.of-before" "$driver_config"
    chmod 600 "$driver_config"
    rm -f /etc/incloud-disk/{cloud.conf,*.before,*.of-before}
}

volume_is_free() {
    saw=$(disk local list | awk -v id="$1" '$1 == id { print "attached to: " $4 }')
    [[ $saw == *": -" ]]
}

# After a control: the DaemonSet stops first, then the driver is the one of the release.
put_back_fleet() {
    told delete --ignore-not-found daemonset -n kube-system incloud-disk --wait=false
    expect 'the pods of the DaemonSet are gone' 120 has_pods ''
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
}
