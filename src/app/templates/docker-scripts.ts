/** Shell scripts of the template `docker`. */

/**
 * Starts Docker's daemon and watches the network of its containers. gVisor restores a sandbox without its bridges and
 * firewall rules, so the script checks for the bridges four times a second, without starting a program, and makes missing
 * ones again.
 */
export const startDocker = `#!/bin/bash
# Runs Docker in a sandbox of Warren. Start it as root; its log is /var/log/docker.log.
mount_cgroups() {
  mountpoint --quiet /sys/fs/cgroup && return
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup || exit 1
  while read -r name _; do
    [[ $name == '#'* ]] && continue
    mkdir -p "/sys/fs/cgroup/$name" && mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" || exit 1
  done < /proc/cgroups
}

# gVisor has no MASQUERADE: packets of containers leave with the sandbox's own address, named here.
let_containers_out() {
  echo 1 > /proc/sys/net/ipv4/ip_forward
  local link own protocol
  link=$(ip -o -4 route show default | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')
  own=$(ip -o -4 addr show dev "$link" | sed -n 's/.* inet \\([0-9.]*\\).*/\\1/p')
  for protocol in tcp udp; do
    local rule=(POSTROUTING -o "$link" -p "$protocol" -j SNAT --to-source "$own")
    iptables -t nat -C "\${rule[@]}" 2>/dev/null || iptables -t nat -A "\${rule[@]}"
  done
}

# Sets bridges to the names of the bridges in /proc/net/dev.
find_bridges() {
  bridges=
  local line
  while read -r line; do
    [[ $line == docker0:* || $line == br-*:* ]] && bridges+=" \${line%%:*}"
  done < /proc/net/dev
}

remember_bridges() { # name and address of each
  remembered=$(ip -o -4 addr show | sed -n 's/^[0-9]*: *\\(docker0\\|br-[^ ]*\\) .*inet \\([0-9./]*\\).*/\\1 \\2/p')
}

make_bridges() {
  local name address
  while read -r name address; do
    [[ -z $name || " $bridges " == *" $name "* ]] && continue
    ip link add "$name" type bridge && ip addr add "$address" dev "$name" && ip link set "$name" up
  done <<< "$remembered"
  let_containers_out
}

mount_cgroups
let_containers_out
rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
# Removed files of an overlay cannot be written to the sandbox's disk, so every layer is a whole copy.
dockerd --storage-driver=vfs --iptables=false --ip6tables=false >> /var/log/docker.log 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon; exit' TERM INT
exec 9<> <(:)
last= remembered=
while kill -0 $daemon 2>/dev/null; do
  find_bridges
  if [[ $bridges != "$last" ]]; then
    [[ -n $last && $bridges != *docker0* ]] && make_bridges && find_bridges
    remember_bridges
    last=$bridges
  fi
  read -r -t 0.25 -u 9
done
wait $daemon
`

/** Debian has Compose as the program `docker-compose`; this plug-in adds `docker compose`. */
export const composePlugin = `#!/bin/sh
if [ "$1" = docker-cli-plugin-metadata ]; then
  echo '{"SchemaVersion":"0.1.0","Vendor":"Debian","Version":"1","ShortDescription":"Docker Compose"}'
  exit
fi
shift
exec docker-compose "$@"
`
