# Runs as root in a copy of the base template, with the network of the machine: installs the programs of the benchmark
# `work` and puts what its jobs read into /opt/work. The arguments are options for apt-get.
set -eu
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get "$@" -q update
apt-get "$@" -q -y -o Dpkg::Options::=--force-unsafe-io install --no-install-recommends \
  ant ant-optional chromium ffmpeg fonts-dejavu-core golang-go junit4 openjdk-17-jdk-headless postgresql \
  python3-ipykernel python3-nbclient python3-pytest redis-server sqlite3
apt-get clean
rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*

python3 /tmp/inputs.py /opt/work
cd /opt/work
pip download --quiet --only-binary=:all: --dest wheels pandas==3.1.1
npm install --prefix web --cache /opt/work/npm-cache --no-audit --no-fund --quiet
rm -rf web/node_modules
npm install --prefix browser --cache /tmp/npm-cache --ignore-scripts --no-audit --no-fund --quiet playwright-core@1.65.0

# A repository with a pack of 50 MB: sources, and then libraries until it is large enough.
git init --quiet --initial-branch main /tmp/repository
cd /tmp/repository
git config user.name bench
git config user.email bench@bench.test
git config gc.auto 0
commit() {
  git add --all
  git commit --quiet --message "$1"
}
size_mb() {
  git repack -adq
  du -sm .git/objects | cut -f1
}
cp -r /usr/share/go-1.19/src go
commit go
cp -r /usr/lib/python3 /usr/include .
commit more
for library in $(ls -S /usr/lib/*-linux-gnu/*.so.* | tail -n +20); do
  [ "$(size_mb)" -lt 50 ] || break
  cp -L "$library" .
  commit "$(basename "$library")"
done
git clone --quiet --bare --no-local /tmp/repository /opt/work/repository.git
chown -R user:user /opt/work
rm -rf /tmp/* /root/.npm /root/.cache /root/.config
