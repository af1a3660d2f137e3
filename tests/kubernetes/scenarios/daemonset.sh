# The DaemonSet of examples/, on a node that has no driver; what `disk doctor` says there.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

daemonset() { patiently </opt/project/examples/daemonset.yaml; }

# The other intervals are for a test's patience.
patiently() { sed -e 's/"300"/"2"/' -e 's/periodSeconds: 30$/periodSeconds: 2/' -e 's/minReadySeconds: 10/minReadySeconds: 1/'; }

# installs_by WORDS: what its first container runs instead.
installs_by() {
    sed -e "s|args: \[\"node\", \"install\".*|args: [$1]|"
}

play_daemonset() {
    sh /opt/release/install.sh uninstall >/dev/null || fail 'the driver cannot be uninstalled'
    did 'the driver uninstalled'
    expect 'disk doctor: kubelet looks there, and nothing is there' 1 \
        doctor_says error 'plugin folder' "kubelet looks in $plugins (volumePluginDir in its configuration)"
    daemonset | if [[ $me == daemonset ]]; then cat; else installs_by '"--version"'; fi |
        apply || fail 'no DaemonSet'
    did 'the DaemonSet created'
    expect 'its container on the node runs' 30 verifier_runs
    # The volume is made by the release that lies there, for the node may have no driver.
    begin
    expect 'the driver is the one of the image' 1 is_installed
    expect 'kubelet called it without a restart' 1 called mount Success
    expect 'the DaemonSet is ready' 30 verifier_is True
    expect 'its log says so' 5 verifier_says 'as installed: disk '
    expect 'disk doctor: the driver is there' 1 doctor_says ok 'plugin folder' "$plugins/incloud~disk/disk is there"
    expect '... and kubelet, and who attaches' 1 doctor_says ok kubelet "process $(pid_of kubelet); kubelet itself attaches"
    expect '... and where it works' 1 doctor_says ok 'kubelet root' /var/lib/kubelet
    expect '... and the volume' 1 doctor_says ok volumes '1 volume is on this machine'
    drift
    again_as_installed
    removal
}

# A person puts another program there.
drift() {
    local folder=$plugins/incloud~disk
    cp "$folder/disk" "$folder/.disk.other"
    printf 'other' >>"$folder/.disk.other"
    mv "$folder/.disk.other" "$folder/disk"
    did 'another program put in the place of the driver'
    expect 'the DaemonSet is not ready' 30 verifier_is False
    expect '... its log says what differs' 10 verifier_says 'is another one than was installed'
    expect 'disk doctor: it is another build' 1 doctor_says warning 'plugin folder' 'is another build'
    expect 'the container writes on' 5 goes_on
}

again_as_installed() {
    told delete --ignore-not-found pod -n kube-system -l app.kubernetes.io/name=incloud-disk --wait=false
    did "the DaemonSet's pod deleted, another one comes"
    expect 'the driver is the one of the image again' 60 is_installed
    expect 'the DaemonSet is ready' 30 verifier_is True
}

removal() {
    told delete --ignore-not-found daemonset -n kube-system incloud-disk --wait=false || fail 'the DaemonSet cannot be deleted'
    expect 'the DaemonSet deleted: its pod is gone' 60 no_verifier
    expect '... and the driver is still there' 1 is_installed
    node_pod refused '"node", "uninstall"'
    expect 'an uninstall beside the volume is refused' 30 node_pod_says refused Failed 'refused, nothing was removed'
    expect 'the same container, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    put_away
    node_pod uninstall '"node", "uninstall"'
    expect 'an uninstall without volumes' 30 node_pod_says uninstall Succeeded ''
    expect '... and the plugin folder is empty' 1 nothing_in_plugins
    told delete --ignore-not-found pod refused uninstall --wait=false
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
}

# The pod that wants the volume waits, and kubelet says why.
control_daemonset() {
    patience=20
    decisive="the StatefulSet's pod is up and writes"
}

put_back_daemonset() {
    expect 'kubelet had looked for a driver, and found none' 1 kubelet_found_none
    told delete --ignore-not-found daemonset -n kube-system incloud-disk --wait=false
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
}

kubelet_found_none() {
    saw=$(grep -o 'pv-daemonset-control.*no volume plugin matched' "$part_logs/kubelet.log" | grep -o 'no volume plugin matched' | head -n 1)
    [[ -n $saw ]]
}

is_installed() { cmp -s "$plugins/incloud~disk/disk" /opt/release/disk; }

nothing_in_plugins() {
    saw=$(ls -A "$plugins")
    [[ -z $saw ]]
}

# --- its pod ----------------------------------------------------------------------------------------

verifier() {
    kubectl get pod -n kube-system -l app.kubernetes.io/name=incloud-disk "$@" 2>/dev/null
}

verifier_runs() { [[ $(verifier -o 'jsonpath={.items[*].status.phase}') == Running ]]; }

# verifier_is READY
verifier_is() {
    saw=$(verifier -o 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}')
    saw="ready: $saw"
    [[ $saw == "ready: $1" ]]
}

verifier_says() {
    saw=$(cat /var/log/pods/kube-system_incloud-disk-*/verify/*.log 2>/dev/null | grep -o "$1.*" | tail -n 1)
    [[ -n $saw ]]
}

no_verifier() { [[ -z $(verifier -o name) ]] && api_answers; }

# node_pod NAME WORDS: the image's program once, as the DaemonSet's first container runs it.
node_pod() {
    apply <<YAML || fail "no pod $1"
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  hostPID: true
  hostNetwork: true
  automountServiceAccountToken: false
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  containers:
    - name: node
      image: $(sed -n 's/^ *image: //p' /opt/project/examples/daemonset.yaml | head -n 1)
      args: [$2]
      securityContext: {privileged: true}
      volumeMounts: [{name: host, mountPath: /host, mountPropagation: HostToContainer}]
  volumes: [{name: host, hostPath: {path: /, type: Directory}}]
YAML
}

# node_pod_says NAME PHASE TEXT
node_pod_says() {
    [[ $(kubectl get pod "$1" -o 'jsonpath={.status.phase}') == "$2" ]] || return 1
    saw=$(cat /var/log/pods/default_"$1"_*/node/*.log | grep -o "$3.*" | head -n 1)
    [[ -n $saw ]]
}

# --- disk doctor ------------------------------------------------------------------------------------

# doctor_says LEVEL CHECK TEXT: the same to people and to machines. No udev runs here, so that all
# is never well: 1 is the exit status for a warning.
doctor_says() {
    local text json status=0 wanted=1
    [[ $1 != error ]] || wanted=2
    text=$(disk doctor 2>&1 | tee "$part_logs/doctor.log" | tr -s ' \n' ' ')
    json=$(disk doctor --json 2>&1) || status=$?
    json=$(tr -s ' \n' ' ' <<<"$json")
    saw=$(grep -oF "$3" <<<"$json" | head -n 1)
    [[ $status == "$wanted" && $text == *"$1 $2 "*"$3"* &&
        $json =~ "\"check\": \"$2\", \"level\": \"$1\", \"found\": \""[^\"]*"$3" ]]
}
