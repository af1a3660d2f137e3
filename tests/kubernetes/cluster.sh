# The parts of the cluster: how each is started, stopped, frozen, and how it is seen to work.
# shellcheck shell=bash

readonly address=10.77.0.1
readonly api=https://$address:6443
readonly plugins=/usr/libexec/kubernetes/kubelet-plugins/volume/exec
readonly part_logs=/var/log/parts
readonly pids=/run/parts
export KUBECONFIG=/etc/kubernetes/kubeconfig

# --- any part -----------------------------------------------------------------------------------

# start NAME COMMAND...
start() {
    local part=$1
    shift
    "$@" >>"$part_logs/$part.log" 2>&1 </dev/null &
    echo $! >"$pids/$part"
}

pid_of() { cat "$pids/$1"; }

runs() { runs_as "$(pid_of "$1")"; }

# runs_as PID
runs_as() {
    local state
    state=$(awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null) && [[ $state != [ZX] ]]
}

# stop_part NAME: as a service manager does it.
stop_part() {
    kill -TERM "$(pid_of "$1")"
    until_true 30 not runs "$1" || fail "$1 did not stop"
}

not() { ! "$@"; }

# until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}

# --- the control plane ----------------------------------------------------------------------------

write_files() {
    mkdir -p "$part_logs" "$pids" /etc/kubernetes /run/kubernetes /etc/cni/net.d
    openssl genrsa -out /run/kubernetes/accounts.key 2048 2>/dev/null
    local token
    token=$(</proc/sys/kernel/random/uuid)
    printf '%s,admin,admin,system:masters\n' "$token" >/run/kubernetes/tokens
    # The API server makes its certificate itself: no other one makes it here.
    cat >"$KUBECONFIG" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: here, context: {cluster: here, user: admin}}]
current-context: here
YAML
    cat >/etc/containerd-config.toml <<'TOML'
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/box:1"
  # Root in a sandbox may not lower it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
TOML
    cat >/etc/cni/net.d/loopback.conflist <<'JSON'
{"cniVersion":"0.4.0","name":"loopback","plugins":[{"type":"loopback"}]}
JSON
}

start_etcd() {
    start etcd etcd --data-dir /run/etcd --listen-client-urls http://127.0.0.1:2379 \
        --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
        --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380
}

start_api() {
    start apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir /run/kubernetes \
        --bind-address "$address" --advertise-address "$address" --secure-port 6443 \
        --authorization-mode AlwaysAllow --token-auth-file /run/kubernetes/tokens \
        --disable-admission-plugins ServiceAccount \
        --service-account-issuer "$api" --service-account-key-file /run/kubernetes/accounts.key \
        --service-account-signing-key-file /run/kubernetes/accounts.key \
        --service-cluster-ip-range 10.78.0.0/24 --allow-privileged --request-timeout 5s --v 2
}

# Without an election, which it would lose, and end, while etcd is frozen. It asks each minute whether
# what it attached still is; here more often.
start_controllers() {
    start controller-manager kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
        --attach-detach-reconcile-sync-period 10s \
        --flex-volume-plugin-dir "$plugins" --cert-dir /run/kubernetes --v 4
    start scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
}

api_answers() { kubectl get --raw '/readyz' --request-timeout 3s >/dev/null 2>&1; }

# told WORDS...: kubectl, again until the API server comes to it: where the machine is busy five seconds are
# not always enough for its etcd.
told() { until_true 60 kubectl "$@" >/dev/null 2>&1; }

# apply: what is written on the input.
apply() {
    local text
    text=$(cat)
    until_true 60 applied "$text"
}
applied() { kubectl apply -f - >/dev/null 2>&1 <<<"$1"; }

freeze_etcd() { kill -STOP "$(pid_of etcd)"; }
thaw_etcd() {
    kill -CONT "$(pid_of etcd)"
    until_true 60 api_answers || fail "the API server does not answer although etcd runs again"
}

# --- the node -------------------------------------------------------------------------------------

start_containerd() {
    start containerd containerd --config /etc/containerd-config.toml
    import_images
}

import_images() {
    until_true 30 ctr version >/dev/null 2>&1 || fail "containerd does not answer"
    local image
    for image in /opt/images/*.tar; do
        ctr -n k8s.io images import "$image" >/dev/null || fail "containerd does not take $image"
    done
}

# start_kubelet [ATTACHER]: the attacher is kubelet, as in the incident, or the controller-manager.
start_kubelet() {
    local by_controller=false
    attacher=${1:-$(cat /run/attacher 2>/dev/null || echo kubelet)}
    echo "$attacher" >/run/attacher
    [[ $attacher != controller-manager ]] || by_controller=true
    kubelet_config "$address" "$RUN" "$by_controller" >/etc/kubernetes/kubelet.yaml
    start kubelet run_kubelet node-a "$address" /etc/kubernetes/kubelet.yaml
}

# kubelet_config ADDRESS CGROUP BY-CONTROLLER. Thresholds of nothing, for the machine's disk and memory are
# other people's too.
kubelet_config() {
    cat <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: $1
healthzPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /$2
failSwapOn: false
enableControllerAttachDetach: $3
volumePluginDir: $plugins
makeIPTablesUtilChains: false
resolvConf: ""
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
YAML
}

# run_kubelet NODE ADDRESS CONFIG: the shell becomes kubelet. A scenario may name another way to the API
# server in `asks_by`.
run_kubelet() {
    exec kubelet --config "$3" --kubeconfig "${asks_by:-$KUBECONFIG}" \
        --container-runtime remote --container-runtime-endpoint unix:///run/containerd/containerd.sock \
        --hostname-override "$1" --node-ip "$2" --cert-dir /run/kubernetes --v 4
}

# node_is_ready [NODE]
node_is_ready() {
    [[ $(kubectl get node "${1:-node-a}" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}' 2>/dev/null) == True ]]
}

install_driver() {
    # The static one, as the image has it, and a controller-manager in a container needs it.
    sh /opt/release/install.sh install --cloud local --plugin-dir "$plugins" --binary /opt/release/disk
}

start_cluster() {
    write_files
    start_etcd
    start_containerd
    start_api
    until_true 90 api_answers || fail "the API server does not answer"
    until_true 30 kubectl get namespace default >/dev/null 2>&1 || fail "there is no namespace"
    install_driver >"$part_logs/install.log" 2>&1 || fail "install.sh failed; see install.log"
    start_controllers
    start_kubelet kubelet
    until_true 90 node_is_ready || fail "the node is not ready"
    apply <<'YAML' || fail "no storage class"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: incloud}
provisioner: kubernetes.io/no-provisioner
allowVolumeExpansion: true
YAML
}
