#!/bin/bash
# Makes everything that the cluster needs in .cache/kubernetes and installs nothing: `build.sh`. What is there already stays.
# After a change of Warren, `build.sh image` makes its image again.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"
version=1.34.4

all() {
  mkdir -p "$bin" "$build/images"
  [ -e "$build/images/pause.tar" ] || packages
  kubernetes
  "$repo/bin/node" "$here/prepare.ts" "$bin"
  image
}

packages() {
  local package
  rm -rf "$build/packages" "$debian"
  mkdir -p "$build/packages" "$debian"
  (cd "$build/packages" && apt-get download etcd-server containerd containernetworking-plugins busybox-static)
  for package in "$build"/packages/*.deb; do dpkg -x "$package" "$debian"; done
  "$here/pause-image.sh" "$debian/bin/busybox" "$build/images/pause.tar"
}

kubernetes() {
  local program stamp=k8s.io/component-base/version
  if [ ! -e "$build/source/go.mod" ]; then
    rm -rf "$build/unpacked"
    cp -r "$(module_of "k8s.io/kubernetes@v$version")" "$build/unpacked"
    chmod -R u+w "$build/unpacked"
    # The module names folders of its repository that the proxy does not have; they are published as modules of their own.
    sed -i -E "s,=> \./staging/src/(k8s\.io/[^ ]+),=> \1 v0.${version#1.}," "$build/unpacked/go.mod"
    rm -rf "$build"/unpacked/{vendor,go.work,go.work.sum} "$build/source"
    mv "$build/unpacked" "$build/source"
  fi
  for program in kube-apiserver kubelet kube-controller-manager kube-scheduler kube-proxy kubectl; do
    [ -e "$bin/$program" ] || (cd "$build/source" && GOWORK=off CGO_ENABLED=0 go build -mod=mod -trimpath \
      -ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=34" -o "$bin/$program" "./cmd/$program")
  done
}

image() {
  rm -rf "$repo"/dist/warren-*
  (cd "$repo" && npm run --silent release)
  "$repo/bin/container-image" "$repo"/dist/warren-*.tar.gz "$build/images/warren.tar"
}

# Prints the folder of a Go module, which it downloads.
module_of() { (cd / && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); }

"${@:-all}"
