#!/bin/bash
# Packs a folder as an image of one layer, for no registry is asked: image.sh FOLDER NAME ENTRYPOINT OUT
#
# An archive as `docker save` writes it; the entry point is a list of JSON.
set -euo pipefail

folder=$1 name=$2 entrypoint=$3 out=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tar -C "$folder" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/layer.tar" .
sum=$(sha256sum <"$work/layer.tar")
cat >"$work/config.json" <<JSON
{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":$entrypoint},"rootfs":{"type":"layers","diff_ids":["sha256:${sum%% *}"]}}
JSON
cat >"$work/manifest.json" <<JSON
[{"Config":"config.json","RepoTags":["$name"],"Layers":["layer.tar"]}]
JSON
mkdir -p "$(dirname -- "$out")"
tar -C "$work" -cf "$out" manifest.json config.json layer.tar
