#!/bin/bash
# Makes the one image that all containers and sandboxes run, for no registry is asked: images.sh CACHE
#
# An archive as `docker save` writes it, with a static busybox. Without a command it sleeps, which is
# all that a sandbox has to do.
set -euo pipefail

cache=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/layer"/{bin,data,tmp,proc,sys,dev,etc} "$work/image"
cp "$cache/busybox/bin/busybox" "$work/layer/bin/busybox"
for name in sh ls cat date sleep sync tail wc awk sed grep df mount stat touch mkdir rm echo dd kill; do
    ln -s busybox "$work/layer/bin/$name"
done
tar -C "$work/layer" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/image/layer.tar" .
sum=$(sha256sum <"$work/image/layer.tar")
cat >"$work/image/config.json" <<JSON
{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep","2147483647"]},"rootfs":{"type":"layers","diff_ids":["sha256:${sum%% *}"]}}
JSON
cat >"$work/image/manifest.json" <<'JSON'
[{"Config":"config.json","RepoTags":["localhost/box:1"],"Layers":["layer.tar"]}]
JSON
mkdir -p "$cache/images"
tar -C "$work/image" -cf "$cache/images/box.tar" manifest.json config.json layer.tar
