#!/bin/bash
# Writes a small image as a tar file: busybox that sleeps. Containerd needs one for each pod, and no registry has to be reached.
set -euo pipefail
busybox=$1 out=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/root/bin" "$folder/image/blobs/sha256"
cp "$busybox" "$folder/root/bin/busybox"
for name in sh sleep; do ln -s busybox "$folder/root/bin/$name"; done
tar -cf "$folder/layer" --owner=0 --group=0 -C "$folder/root" .
# Moves a file to its place and prints how others name it.
blob() {
  local sum size
  sum=$(sha256sum "$1" | cut -d' ' -f1) size=$(stat -c %s "$1")
  mv "$1" "$folder/image/blobs/sha256/$sum"
  echo "\"digest\": \"sha256:$sum\", \"size\": $size"
}
layer=$(blob "$folder/layer")
digest=$(echo "$layer" | cut -d'"' -f4)
type=application/vnd.oci.image
echo "{\"architecture\": \"amd64\", \"os\": \"linux\", \"config\": {\"Entrypoint\": [\"/bin/sleep\", \"2147483647\"]},
  \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"$digest\"]}}" >"$folder/config"
config=$(blob "$folder/config")
echo "{\"schemaVersion\": 2, \"mediaType\": \"$type.manifest.v1+json\", \"config\": {\"mediaType\": \"$type.config.v1+json\", $config},
  \"layers\": [{\"mediaType\": \"$type.layer.v1.tar\", $layer}]}" >"$folder/manifest"
manifest=$(blob "$folder/manifest")
echo "{\"schemaVersion\": 2, \"manifests\": [{\"mediaType\": \"$type.manifest.v1+json\", $manifest,
  \"annotations\": {\"io.containerd.image.name\": \"localhost/pause:1\"}}]}" >"$folder/image/index.json"
echo '{"imageLayoutVersion": "1.0.0"}' >"$folder/image/oci-layout"
tar -cf "$out" -C "$folder/image" oci-layout index.json blobs
