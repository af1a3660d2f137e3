#!/bin/bash
# Makes the hosts and plays the scenes: play.sh WORK RELEASE.tar.gz PARTS [ansible|cloud-init], called by run.sh.
set -uo pipefail

work=$1 release=$2 parts=$3
shift 3
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mount -t tmpfs -o mode=700 tmpfs "$work" || exit 1
mkdir "$work"/{hosts,out,home,layers}
export FLEET=$work/hosts
# What a configuration holds that must be seen nowhere else.
readonly secret=canary-of-a-secret-4711
readonly plugin='usr/libexec/kubernetes/kubelet-plugins/volume/exec/incloud~disk'

# shellcheck source=tests/fleet/scene.sh
. "$here/scene.sh"
# shellcheck source=tests/fleet/ansible.sh
. "$here/ansible.sh"
# shellcheck source=tests/fleet/cloud_init.sh
. "$here/cloud_init.sh"

ansible=$(compgen -G "$parts/ansible-*/bin/ansible-playbook" | sort -V | tail -n 1)
if [[ ${1-} == cloud-init ]]; then
    :
elif [[ -x $ansible ]]; then
    play_scenes ansible
else
    skip_scenes ansible 'ansible-core cannot be had here'
fi
if [[ ${1-} == ansible ]]; then
    :
elif compgen -G "$parts/cloud-init/cloud-init_*.deb" >/dev/null; then
    play_scenes cloud_init
else
    skip_scenes cloud_init 'cloud-init cannot be had here'
fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0 && passed + skipped > 0))
