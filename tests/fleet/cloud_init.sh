# The scenes of examples/cloud-init.yaml, by Debian's cloud-init, with the three of its modules that it uses.
# shellcheck shell=bash disable=SC2154,SC2034 # what play.sh and scene.sh set and use

scenes_of_cloud_init=(
    snippet_is_right
    release_not_there
    another_release
    new_node
    once_more
)

prepare_cloud_init() {
    local package layer=$work/layers/cloud-init
    # shellcheck source=tests/support/debian.sh
    . "$here/../support/debian.sh"
    make_root "$layer"
    for package in "$parts"/cloud-init/*.deb; do
        unpack "$package" "$layer" || return 1
    done
    chmod 755 "$layer"
    [[ -d $work/layers/hidden ]] || hide
    [[ -f $work/release/disk ]] || { mkdir "$work/release" && tar -xzf "$release" -C "$work/release" --strip-components 1; } || return 1
    driver=$(sum_of "$work/release/$(suitable_driver "$work/release")") snippet=$work/release/examples/cloud-init.yaml
    new_host c1 && new_host c2
}

# new_host NAME: with a server of releases in its own network.
new_host() {
    local tries=0
    start_host "$1" "$work/layers/cloud-init" || return 1
    on "$1" 'mkdir -p /srv/releases /etc/cloud /var/lib/cloud/seed/nocloud && cat >/srv/releases/right.tar.gz' <"$release"
    # As good as the right one, and not the one that is named.
    on "$1" 'gzip -dc /srv/releases/right.tar.gz | gzip -1 >/srv/releases/other.tar.gz && cat >/etc/cloud/cloud.cfg' <<'TEXT'
datasource_list: [NoCloud]
network: {config: disabled}
users: []
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
system_info: {distro: debian}
TEXT
    bash "$here/ssh.sh" "$1" \
        'exec python3 -m http.server --bind 127.0.0.1 --directory /srv/releases 8080' >/dev/null 2>&1 &
    until on "$1" 'curl -sf http://127.0.0.1:8080/ >/dev/null'; do
        ((tries++ < 100)) || return 1
        sleep 0.1
    done
}

# boot HOST RELEASE: as on the first start of an instance; `status` is what cloud-init says of all in the end.
boot() {
    sed -e "s|^\( *url=\).*|\1http://127.0.0.1:8080/$2.tar.gz|" -e "s|^\( *sha256=\).*|\1$(sum_of "$release")|" \
        -e 's|kind = "openstack"|kind = "local"|' -e "s|\"replace-me\"|\"$secret\"|" "$snippet" |
        on "$1" 'cat >/var/lib/cloud/seed/nocloud/user-data'
    said=$(mktemp "$work/out/XXXXXX")
    status=0
    on "$1" 'echo "instance-id: i-1" >/var/lib/cloud/seed/nocloud/meta-data
        cloud-init clean && cloud-init init --local && cloud-init init &&
            cloud-init modules --mode config && cloud-init modules --mode final
        cloud-init status --long' >"$said" 2>&1 || status=$?
}

is_not_installed() {
    local path
    for path in "$plugin" etc/incloud-disk var/lib/incloud-disk usr/local/bin/disk; do
        ! has "$1" "$path" || return 1
    done
}
leaves_nothing_of_the_release() { ! compgen -G "$(file "$1" 'var/lib/incloud-disk-release*')" >/dev/null; }

scene_snippet_is_right() {
    said=$work/out/schema status=0
    on c1 'cat >/tmp/snippet && cloud-init schema --config-file /tmp/snippet' <"$snippet" >"$said" 2>&1 || status=$?
    expect 'cloud-init knows all of it' [ "$status" -eq 0 ]
    expect 'and says so' says 'Valid'
}

scene_release_not_there() {
    boot c1 none
    expect 'cloud-init says that it failed' [ "$status" -ne 0 ]
    expect 'in its words' says 'status: error'
    expect 'and why' says '404'
    expect 'nothing is installed' is_not_installed c1
    expect 'what was brought is for root alone' \
        [ "$(stat --format '%a %U' "$(file c1 run/incloud-disk-first/config.toml)")" = '600 root' ]
    expect 'nothing is left of it' leaves_nothing_of_the_release c1
}

scene_another_release() {
    boot c1 other
    expect 'cloud-init says that it failed' [ "$status" -ne 0 ]
    expect 'in its words' says 'status: error'
    expect 'and why' says 'checksum did NOT match'
    expect 'nothing is installed' is_not_installed c1
    expect 'nothing is left of it' leaves_nothing_of_the_release c1
}

is_installed() {
    expect "$1 has the driver" has_driver "$1" "$driver"
    expect "$1 has its configuration for root alone" \
        [ "$(stat --format '%a %U' "$(file "$1" etc/incloud-disk/config.toml)")" = '600 root' ]
    expect "$1 has the configuration that was brought" grep -qF "$secret" "$(file "$1" etc/incloud-disk/config.toml)"
    expect "$1 is as it was installed" on "$1" "'/$plugin/disk' node --root / verify >/dev/null"
    expect "$1 keeps nothing of the release" leaves_nothing_of_the_release "$1"
    refute "$1 keeps what was brought" has "$1" run/incloud-disk-first/config.toml
}

scene_new_node() {
    boot c2 right
    expect 'cloud-init says that all is done' [ "$status" -eq 0 ]
    expect 'in its words' says 'status: done'
    is_installed c2
    expect 'it keeps a log' has c2 var/log/cloud-init.log
    refute 'the secret was said' grep -qF "$secret" "$said" "$(file c2 var/log/cloud-init.log)"
}

scene_once_more() {
    local before
    before=$(stat --format %i "$(file c2 "$plugin/disk")")
    said=$work/out/again
    expect 'the script alone succeeds again' on c2 'sh /var/lib/cloud/instance/scripts/runcmd' >"$said" 2>&1
    is_installed c2
    boot c2 right
    expect 'all of it succeeds again' [ "$status" -eq 0 ]
    is_installed c2
    expect 'the driver was not written again' [ "$before" = "$(stat --format %i "$(file c2 "$plugin/disk")")" ]
    # What was wrong is put right, on the host that had it.
    boot c1 right
    expect 'a host on which it had failed' [ "$status" -eq 0 ]
    is_installed c1
}
