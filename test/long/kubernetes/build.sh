#!/bin/bash
# Builds Kubernetes from the Go proxy and unpacks etcd, containerd and the network plugins of Debian, without installing anything.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"
version=1.34.4
mkdir -p "$bin" "$debian" "$build/images" "$build/packages"

(cd "$build/packages" && apt-get download etcd-server containerd containernetworking-plugins conntrack busybox-static)
for package in "$build"/packages/*.deb; do dpkg -x "$package" "$debian"; done
"$here/pause-image.sh" "$debian/bin/busybox" "$build/images/pause.tar"

source=$(cd / && go mod download -json "k8s.io/kubernetes@v$version" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
rm -rf "$build/source"
cp -r "$source" "$build/source"
chmod -R u+w "$build/source"
cd "$build/source"
# The module names folders of its repository that the proxy does not have; they are published as modules of their own.
sed -i -E "s,=> \./staging/src/(k8s\.io/[^ ]+),=> \1 v0.${version#1.}," go.mod
rm -rf vendor go.work go.work.sum
stamp=k8s.io/component-base/version
for program in kube-apiserver kubelet kube-controller-manager kube-scheduler kube-proxy kubectl; do
  GOWORK=off CGO_ENABLED=0 go build -mod=mod -trimpath \
    -ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=34" -o "$bin/$program" "./cmd/$program"
done
