# A driver of the old kind is replaced under two running pods, and put back, and replaced again.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

readonly old_driver=/run/predecessor

play_swap() {
    old_driver_is_there
    begin
    disk local create "vol-$me-i" --size 256M >/dev/null || fail 'no second volume'
    have_pod "$me-0" "vol-$me"
    have_pod "$me-i" "vol-$me-i"
    make_pod "$me-i" "flexVolume: {driver: incloud/disk, fsType: ext4, options: {volumeID: vol-$me-i}}"
    expect 'two pods run on volumes of the old driver' 60 all_up
    remember_all
    expect '... on their volumes' 1 all_on_their_volumes
    refused
    install_it
    expect 'a pod that comes now gets its volume' 60 a_new_pod_runs
    kubelet_again 'with the new driver'
    upgrade_it
    back_and_forth
    end_of_all
}

# The node's configuration is not there: what would be installed attaches nothing.
refused() {
    mv "$driver_config" /run/driver.toml
    if [[ $me == swap ]]; then
        expect 'install without a configuration: refused' 1 install_says 1 'refused, nothing was changed'
        expect '... with what is missing' 1 install_says 1 'there is no /etc/incloud-disk/config.toml'
        expect '... and the old driver is there' 1 is_old
        expect 'install for OpenStack, without credentials: refused' 1 install_says 1 'refused, nothing was changed' --cloud openstack
        expect '... and the old driver is there' 1 is_old
        expect '... and no configuration' 1 not test -e "$driver_config"
    else
        expect 'installed although it is not ready' 10 install_says 0 '' --although-not-ready
    fi
    expect 'the pods did not notice' 5 unnoticed
}

install_it() {
    if [[ $me == swap ]]; then
        expect 'install with a configuration' 20 install_says 0 'installed' --config /run/driver.toml
        expect 'the driver is the one of the release' 1 is_installed
    fi
    expect 'the pods did not notice' 5 unnoticed
}

control_swap() { decisive='a pod that comes now gets its volume'; }

# One that was never the old driver's.
a_new_pod_runs() {
    if [[ -z ${new_pod-} ]]; then
        new_pod=yes
        # By a claim: of two pods' own volumes kubelet takes those of one name for one volume.
        INCLOUD_DISK_CONFIG=/etc/predecessor.toml me=$me-n make_volume
        me=$me-n make_claim
        have_pod "$me-n" "vol-$me-n"
        make_pod "$me-n" "persistentVolumeClaim: {claimName: data-$me-n-0}"
    fi
    all_up || return 1
    [[ -n ${pid_then["$me-n"]-} ]] || remember_all
}

upgrade_it() {
    cp /opt/release/disk /run/another
    printf 'another build' >>/run/another
    expect 'upgrade to another build' 20 install_says 0 '' --binary /run/another
    expect '... it is there' 1 cmp -s "$plugins/incloud~disk/disk" /run/another
    expect 'the pods did not notice' 5 unnoticed
    kubelet_again 'after the upgrade'
}

back_and_forth() {
    expect 'rollback to the predecessor' 20 node_word_says 0 '' rollback --to predecessor
    expect 'the old driver is there again' 1 is_old
    expect 'the pods did not notice' 5 unnoticed
    kubelet_again 'with the old driver'
    expect 'install again' 20 install_says 0 ''
    expect 'the driver is the one of the release' 1 is_installed
    expect 'the pods did not notice' 5 unnoticed
    kubelet_again 'with the new driver again'
    expect 'the incident of before: what the old driver mounted is guarded' 1 is_refused
}

# A person's mistake, or kubelet's: the mount of a pod that runs stays.
is_refused() {
    local folder=/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-$me
    saw=$("$plugins/incloud~disk/disk" unmountdevice "$folder" | grep -o '"status":"[A-Za-z]*"')
    [[ $saw == *Failure* ]] && has_gone_on_all
}
has_gone_on_all() { all_write; }

end_of_all() {
    expect 'uninstall beside the volumes: refused' 10 node_word_says 1 'refused, nothing was removed' uninstall
    expect '... and the driver is there' 1 is_installed
    put_all_away
    expect 'uninstall without volumes' 10 node_word_says 0 '' uninstall
    expect '... the plugin folder is empty' 1 nothing_in_plugins
    expect '... the predecessor is kept' 1 is_kept
    expect 'uninstall --purge' 10 node_word_says 0 '' uninstall --purge
    expect '... it is gone' 1 not is_kept
    the_driver_of_the_tests
}

put_away_swap() {
    # In another shell than the row's.
    have_pod "$me-0" "vol-$me"
    have_pod "$me-i" "vol-$me-i"
    have_pod "$me-n" "vol-$me-n"
    mark
    # kubelet doubles what it waits between two tries.
    expect 'with a configuration: the third pod has its volume too' 150 all_up
    put_all_away 150
    the_driver_of_the_tests
}

# After a control: the driver with its configuration, which takes down what is there.
step_back() {
    cp /run/driver.toml "$driver_config"
    chmod 600 "$driver_config"
}

the_driver_of_the_tests() {
    rm -rf "$plugins/incloud~disk"
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
    cp /run/driver.toml "$driver_config"
    chmod 600 "$driver_config"
}

put_back_swap() {
    step_back
    install_driver >>"$part_logs/install.log" 2>&1 || fail 'install.sh failed; see install.log'
}

# --- what is there ----------------------------------------------------------------------------------------

old_driver_is_there() {
    sh /opt/release/install.sh uninstall >>"$part_logs/install.log" 2>&1 || fail 'the driver cannot be uninstalled'
    cp "$driver_config" /run/driver.toml
    cat >/etc/predecessor.toml <<'TOML'
[cloud]
kind = "local"
[local]
dir = "/var/lib/incloud-disk/local"
[node]
name = "node-a"
[paths]
state_dir = "/run/predecessor-state"
run_dir = "/run/predecessor-run"
log_dir = "/run/predecessor-log"
[guard]
mode = "off"
remote = false
[heal]
mode = "off"
TOML
    rm -rf /var/lib/incloud-disk/volumes
    mkdir -p "$plugins/incloud~disk"
    cp "$here/predecessor.sh" "$old_driver"
    cp -p "$old_driver" "$plugins/incloud~disk/.disk.new"
    mv "$plugins/incloud~disk/.disk.new" "$plugins/incloud~disk/disk"
    did 'a driver of the old kind in the plugin folder'
}

is_old() { cmp -s "$plugins/incloud~disk/disk" "$old_driver"; }

is_kept() {
    saw=$(find /var/lib/incloud-disk -name disk -type f -exec cmp -s {} "$old_driver" \; -print | head -n 1)
    [[ -n $saw ]]
}

# install_says STATUS TEXT [OPTION...]
install_says() {
    local status=$1 text=$2
    shift 2
    node_word_says "$status" "$text" install --plugin-dir "$plugins" "$@"
}

# node_word_says STATUS TEXT WORD...
node_word_says() {
    local status=$1 text=$2 said found=0
    shift 2
    said=$(sh /opt/release/install.sh "$@" 2>&1) || found=$?
    printf '%s\n--- status %d: %s\n' "$said" "$found" "$*" >>"$part_logs/swap.log"
    saw="status $found: $(tail -n 1 <<<"$said")"
    [[ $found == "$status" && $said == *"$text"* ]]
}

# unnoticed: the same containers, which have written on, and lost nothing.
unnoticed() { all_the_same && all_lost_none && all_write; }

# kubelet_again WHY: it is started anew, asks the driver about all, and tears nothing down.
kubelet_again() {
    stop_part kubelet
    start_kubelet
    did "kubelet restarted $1"
    expect '... it is ready' 60 node_is_ready
    sleep 5
    expect '... the pods did not notice' 10 unnoticed
}
