#!/bin/bash
# Makes the image that the tests' containers and all sandboxes run: images.sh CACHE
#
# It has a static busybox. Without a command it sleeps, which is all that a sandbox has to do.
set -euo pipefail

cache=$1
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
layer=$(mktemp -d)
trap 'rm -rf "$layer"' EXIT

mkdir -p "$layer"/{bin,data,tmp,proc,sys,dev,etc}
cp "$cache/busybox/bin/busybox" "$layer/bin/busybox"
for name in sh ls cat date sleep sync tail wc awk sed grep df mount stat touch mkdir rm echo dd kill; do
    ln -s busybox "$layer/bin/$name"
done
bash "$here/image.sh" "$layer" localhost/box:1 '["/bin/sleep","2147483647"]' "$cache/images/box.tar"
