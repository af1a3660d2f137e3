# The scenes of examples/ansible, on seven hosts, in batches of one, two and four.
# shellcheck shell=bash disable=SC2154,SC2034 # what play.sh and scene.sh set and use

readonly hosts=(n1 n2 n3 n4 n5 n6 n7)

scenes_of_ansible=(
    wrong_checksum
    wrong_signature
    canary_refused
    check_asks_all_and_changes_nothing
    second_batch_refused
    mended_goes_on
    second_run_changes_nothing
    not_well_stops_again_and_again
    unreachable_stops
    upgrade
    rollback
    predecessor_and_forward
    other_configuration
    uninstall
    secret_is_nowhere_else
)

prepare_ansible() {
    local host driver python=/usr/bin/python3
    # A host has no home folder, where a person may keep another one.
    [[ -x $python ]] || python=$(python3 -c 'import sys; print(sys.executable)')
    hide
    control=$work/control
    mkdir "$work/release" "$work/other"
    tar -xzf "$release" -C "$work/release" --strip-components 1 || return 1
    cp -R "$work/release/examples/ansible" "$control"
    cp "$release" "$work/a.tar.gz"
    # Another build: as much another one as its bytes say.
    cp -R "$work/release" "$work/other/incloud-disk-b"
    driver=$(suitable_driver "$work/release")
    echo b >>"$work/other/incloud-disk-b/$driver"
    (cd "$work/other/incloud-disk-b" && sed -i "/  $driver$/s/^[0-9a-f]*/$(sum_of "$driver")/" SHA256SUMS)
    tar -czf "$work/b.tar.gz" -C "$work/other" incloud-disk-b
    driver_a=$(sum_of "$work/release/$driver") driver_b=$(sum_of "$work/other/incloud-disk-b/$driver")
    ssh-keygen -q -t ed25519 -N '' -f "$work/key" && ssh-keygen -q -t ed25519 -N '' -f "$work/another"
    printf 'release@example.org %s\n' "$(cut -d ' ' -f 1,2 "$work/key.pub")" >"$work/allowed_signers"
    sign "$work/key" "$work/a.tar.gz" && sign "$work/key" "$work/b.tar.gz" || return 1

    {
        printf '[incloud_nodes]\n'
        printf '%s\n' "${hosts[@]}"
        printf '[incloud_nodes:vars]\nansible_user=root\nansible_ssh_executable=%s\n' "$here/ssh.sh"
        printf 'ansible_ssh_transfer_method=piped\nansible_python_interpreter=%s\n' "$python"
    } >"$control/inventory.ini"
    cat >"$control/group_vars/incloud_nodes/zz.yml" <<TEXT
incloud_cloud: local
incloud_signers: $work/allowed_signers
TEXT
    printf 'password of the vault\n' >"$work/vault-password"
    (cd "$control" && printf %s "$secret" | ansible-run ansible-vault encrypt_string --stdin-name vault_incloud_secret \
        >group_vars/incloud_nodes/vault.yml 2>/dev/null) || return 1
    for host in "${hosts[@]}"; do
        start_host "$host" || return 1
    done
    predecessor n1
    predecessor n3
}

sign() {
    rm -f "$2.sig"
    ssh-keygen -q -Y sign -f "$1" -n incloud-disk-release "$2" 2>/dev/null
}

ansible-run() {
    env -i HOME="$work/home" PATH="$(dirname "$ansible"):$PATH" LANG=C.UTF-8 FLEET="$FLEET" TMPDIR="$work/home" \
        ANSIBLE_VAULT_PASSWORD_FILE="$work/vault-password" ANSIBLE_FORKS=4 ANSIBLE_NOCOLOR=1 "$@"
}

# play FILE OPTION...: with release A, unless it is said otherwise. `said` has what it said, `asked` who was asked.
play() {
    local file=$1
    shift
    status=0
    said=$(mktemp "$work/out/XXXXXX")
    : >"$FLEET/asked"
    (cd "$control" && ansible-run ansible-playbook "$file.yml" -e '{"batches": [1, 2, 4]}' \
        -e "incloud_release=$work/a.tar.gz" -e "incloud_release_sha256=$(sum_of "$work/a.tar.gz")" "$@") \
        >"$said" 2>&1 || status=$?
    refute 'the secret was said' grep -qaF "$secret" "$said"
}

# The same with the other build.
with_b() { play "$@" -e "incloud_release=$work/b.tar.gz" -e "incloud_release_sha256=$(sum_of "$work/b.tar.gz")"; }

succeeds() { [[ $status -eq 0 ]]; }
fails() { [[ $status -ne 0 ]]; }
# were_asked HOST...: these, and no others.
were_asked() { [[ $(sort -u "$FLEET/asked" | tr '\n' ' ') == "${*:+$* }" ]]; }
# changed HOST: how many tasks changed something there.
changed() { sed -nE "s/^$1 .*changed=([0-9]+) .*/\1/p" "$said"; }
nothing_changed() {
    local host
    for host in "$@"; do [[ $(changed "$host") == 0 ]] || return 1; done
}

# predecessor HOST: another maker's driver, in use there.
readonly script=$'#!/bin/sh\necho \'{"status":"Success"}\'\n'
predecessor() {
    on "$1" "mkdir -p '/$plugin' && cat >'/$plugin/disk' && chmod 755 '/$plugin/disk'" <<<"${script%$'\n'}"
}
has_predecessor() { has "$1" "$plugin/disk" && [[ $(<"$(file "$1" "$plugin/disk")")$'\n' == "$script" ]]; }

# without_cloud HOST: its configuration names one that does not answer.
without_cloud() {
    mkdir -p "$control/host_vars"
    printf 'incloud_cloud: openstack\nincloud_auth_url: http://127.0.0.1:9/v3\n' >"$control/host_vars/$1.yml"
}
with_cloud() { rm "$control/host_vars/$1.yml"; }

# --- the scenes -----------------------------------------------------------------------------------

scene_wrong_checksum() {
    play install -e "incloud_release_sha256=$(printf '0%.0s' {1..64})"
    expect 'it fails' fails
    expect 'it says which one it has' says "has the sha256 $(sum_of "$work/a.tar.gz")"
    expect 'no host is asked' were_asked
    play install -e incloud_release_sha256=
    expect 'without a checksum it fails' fails
    expect 'it says that none is set' says 'not set'
    expect 'no host is asked then' were_asked
}

scene_wrong_signature() {
    sign "$work/another" "$work/a.tar.gz"
    play install
    sign "$work/key" "$work/a.tar.gz"
    expect 'it fails' fails
    expect 'it says why' says 'Check its signature'
    expect 'no host is asked' were_asked
}

scene_canary_refused() {
    without_cloud n1
    keep_states n1
    play install -vvv
    with_cloud n1
    expect 'it fails' fails
    expect 'the refusal is shown' says 'refused, nothing was changed'
    expect 'with what ends it' says 'to do: '
    expect 'the canary alone is asked' were_asked n1
    expect 'its driver stays' has_predecessor n1
    expect 'nothing of it is changed' is_as_kept n1
}

scene_check_asks_all_and_changes_nothing() {
    local host
    without_cloud n3
    keep_states "${hosts[@]}"
    play install --check
    expect 'it fails for the one that is refused' fails
    expect 'its refusal is shown' says 'refused, nothing was changed'
    expect 'all are asked' were_asked "${hosts[@]}"
    expect 'what would be done is shown of the others' [ "$(grep -c 'would be next: renaming it' "$said")" -eq 6 ]
    expect 'each of them is told as a change' [ "$(for host in "${hosts[@]}"; do changed "$host"; done | tr -d '\n')" = 1101111 ]
    expect 'nothing is changed' is_as_kept "${hosts[@]}"
}

scene_second_batch_refused() {
    keep_states "${hosts[@]}"
    play install
    expect 'it fails' fails
    expect 'the refusal is shown' says 'refused, nothing was changed'
    expect 'the third batch is not asked' were_asked n1 n2 n3
    expect 'the canary is done' has_driver n1 "$driver_a"
    expect 'the one that is refused is as it was, and the other one of its batch too' is_as_kept n2 n3
    with_cloud n3
}

scene_mended_goes_on() {
    local host
    play install -vvv
    expect 'it succeeds' succeeds
    expect 'the canary is left as it is' nothing_changed n1
    for host in "${hosts[@]}"; do
        expect "$host has the driver" has_driver "$host" "$driver_a"
        expect "$host has its configuration for root alone" \
            [ "$(stat --format '%a %U' "$(file "$host" etc/incloud-disk/config.toml)")" = '600 root' ]
        expect "$host keeps nothing of the release" [ ! -e "$(file "$host" var/lib/incloud-disk-release)" ]
    done
    expect 'the verdict of each is shown' [ "$(grep -c '^ *msg: .*the driver is in place' "$said")" -eq 6 ]
    expect 'the predecessor is kept' has n3 'var/lib/incloud-disk/predecessor/incloud~disk/disk'
}

scene_second_run_changes_nothing() {
    keep_states "${hosts[@]}"
    play install
    expect 'it succeeds' succeeds
    expect 'it says so' nothing_changed "${hosts[@]}"
    expect 'it is so' is_as_kept "${hosts[@]}"
}

# A new node, on which nothing stands in the way: the driver comes to its place, and the roll-out ends there.
scene_not_well_stops_again_and_again() {
    on n2 "'/$plugin/disk' node --root / uninstall --purge >/dev/null"
    without_cloud n2
    play install --limit n2,n4
    expect 'it fails' fails
    expect 'the verdict is shown' says 'the driver is in place, and not well'
    expect 'later hosts are not asked' were_asked n2
    play install --limit n2,n4
    expect 'it fails again' fails
    expect 'later hosts are not asked again' were_asked n2
    play install --limit n2 -e although_not_well=true
    expect 'a person may go on' succeeds
    with_cloud n2
    play install --limit n2 -e replace_config=true
    expect 'with another configuration it is well' succeeds
}

scene_unreachable_stops() {
    touch "$FLEET/n2/unreachable"
    with_b install
    rm "$FLEET/n2/unreachable"
    expect 'it fails' fails
    expect 'later hosts are not asked' were_asked n1 n2 n3
    expect 'it says for whom' says 'not done: n2, n3'
    expect 'the canary is done' has_driver n1 "$driver_b"
    expect 'no other one is' has_driver n3 "$driver_a"
}

scene_upgrade() {
    local host
    with_b install
    expect 'it succeeds' succeeds
    for host in "${hosts[@]}"; do
        expect "$host has the new driver" has_driver "$host" "$driver_b"
        expect "$host keeps the old one" [ "$(sum_of "$(file "$host" var/lib/incloud-disk/previous/disk)")" = "$driver_a" ]
    done
}

scene_rollback() {
    local host
    keep_states n1 n2 n3
    with_b rollback --limit n1,n2,n3 --check
    expect 'a check succeeds' succeeds
    expect 'a check changes nothing' is_as_kept n1 n2 n3
    with_b rollback
    expect 'it succeeds' succeeds
    for host in "${hosts[@]}"; do
        expect "$host has the old driver" has_driver "$host" "$driver_a"
    done
    keep_states n1 n2 n3
    with_b rollback --limit n1,n2,n3
    expect 'again it succeeds' succeeds
    expect 'and is not there and back' nothing_changed n1 n2 n3
    expect 'nothing is changed' is_as_kept n1 n2 n3
}

scene_predecessor_and_forward() {
    play rollback -e to=predecessor --limit n1,n2,n3
    expect 'it succeeds' succeeds
    expect 'n1 has its predecessor' has_predecessor n1
    expect 'n3 has its predecessor' has_predecessor n3
    expect 'n2, which had none, has the driver' has_driver n2 "$driver_a"
    expect 'that is said' says 'stays as it is: disk '
    keep_states n1 n2 n3
    play rollback -e to=predecessor --limit n1,n2,n3
    expect 'again it succeeds' succeeds
    expect 'again nothing changes' nothing_changed n1 n2 n3
    expect 'and it is so' is_as_kept n1 n2 n3
    play install --limit n1,n3
    expect 'forward again' succeeds
    expect 'n1 has the driver' has_driver n1 "$driver_a"
    play rollback -e to=nowhere
    expect 'another word is refused' fails
    expect 'before a host is asked' were_asked
}

scene_other_configuration() {
    keep_states n1
    play install --limit n1 -e incloud_region=RegionTwo
    expect 'it is refused' fails
    expect 'the key is named' says 'openstack.region'
    expect 'nothing is changed' is_as_kept n1
    play install --limit n1 -e incloud_region=RegionTwo -e replace_config=true --diff
    expect 'it is replaced' succeeds
    expect 'it is there' grep -q RegionTwo "$(file n1 etc/incloud-disk/config.toml)"
}

scene_uninstall() {
    keep_states n4
    play uninstall --limit n4 --check
    expect 'a check succeeds' succeeds
    expect 'a check changes nothing' is_as_kept n4
    play uninstall --limit n4
    expect 'it succeeds' succeeds
    refute 'the driver is gone' has_driver n4 "$driver_a"
    play uninstall --limit n4
    expect 'again it succeeds' succeeds
    expect 'again nothing changes' nothing_changed n4
}

# Of all that was said and left above, with -vvv and --diff too.
scene_secret_is_nowhere_else() {
    expect 'the configuration has it' grep -qF "$secret" "$(file n5 etc/incloud-disk/config.toml)"
    refute 'what was said has it' grep -rlaF "$secret" "$work/out"
    refute 'the folder of the play has it' grep -rlaF "$secret" "$control" "$work/home"
    expect 'the hosts have it in their configuration alone' keeps_the_secret "${hosts[@]}"
}
