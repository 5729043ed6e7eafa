/** What root can do in a sandbox under gVisor, as in a machine of its own: mounts, FUSE, ping, a firewall, namespaces. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { trustSettings } from '../support/host-authorities.ts'
import { readLog } from '../support/read-log.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const packages = 'bindfs fuse3 iptables rclone'

/** The upper layer lies in memory: removed files of the lower one cannot be written to the sandbox's disk. */
const mounts = `set -e
sudo mkdir -p /mnt/memory /mnt/bound /mnt/over /var/lower/folder
sudo mount -t tmpfs -o size=8m none /mnt/memory
sudo mkdir /mnt/memory/upper /mnt/memory/work
sudo mount --bind /etc /mnt/bound
echo below | sudo tee /var/lower/folder/file /var/lower/gone
sudo mount -t overlay -o lowerdir=/var/lower,upperdir=/mnt/memory/upper,workdir=/mnt/memory/work none /mnt/over
sudo rm /mnt/over/gone
sudo rm -r /mnt/over/folder
sudo mkdir /mnt/over/folder
echo kept | sudo tee /mnt/memory/file /mnt/over/file`
const overlayOnDisk = `sudo mkdir -p /mnt/other /var/other/upper /var/other/work &&
sudo mount -t overlay -o lowerdir=/var/lower,upperdir=/var/other/upper,workdir=/var/other/work none /mnt/other`
const seeMounts = `cat /mnt/memory/file /mnt/over/file; cmp /etc/passwd /mnt/bound/passwd && find /mnt/over | sort`
const seenMounts = 'kept\nkept\n/mnt/over\n/mnt/over/file\n/mnt/over/folder\n'

/** fusermount lets a user mount over the file systems that it knows: memory is one, the sandbox's disk is not. */
const fuse = `set -e
mkdir -p shown given remote && echo first > given/file
sudo bindfs given shown && echo second > shown/other
sudo mkdir -p /mnt/own && sudo mount -t tmpfs -o mode=1777 none /mnt/own && mkdir /mnt/own/shown
bindfs --no-allow-other given /mnt/own/shown
(sudo rclone mount --allow-other --vfs-cache-mode writes :local:/home/user/given remote > rclone.log 2>&1 &)
until grep -q /home/user/remote /proc/mounts; do read -t 0.1 <> <(:) || true; done`
const seeFuse = 'head -n 1 shown/file shown/other /mnt/own/shown/file remote/file; ls given'
const seenFuse = [
  ...['==> shown/file <==', 'first', '', '==> shown/other <==', 'second', ''],
  ...['==> /mnt/own/shown/file <==', 'first', '', '==> remote/file <==', 'first', 'file', 'other', ''],
].join('\n')

const firewall = `set -e
(python3 -m http.server 9000 > server.log 2>&1 &)
until curl -s -o /dev/null http://127.0.0.1:9000/; do read -t 0.1 <> <(:) || true; done
sudo iptables-legacy -A INPUT -p tcp --dport 9000 -j DROP
! curl -s -o /dev/null --max-time 2 http://127.0.0.1:9000/
sudo iptables-legacy -D INPUT -p tcp --dport 9000 -j DROP
curl -s -o /dev/null http://127.0.0.1:9000/ && sudo iptables-legacy -t nat -S | head -n 1`

if (isolations.includes('gvisor')) {
  describe('root in a sandbox under gVisor', () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      warren = await startWarren('gvisor', { settings: { ...trustSettings(), ...noWarmPool } })
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      await run(`sudo apt-get update -qq && sudo apt-get install -qq -y --no-install-recommends ${packages}`)
    })
    after(() => warren?.stop())
    const run = async (command: string, on = sandbox): Promise<string> =>
      (await on.commands.run(command, { timeoutMs: 300_000 })).stdout

    it('mounts tmpfs, bind mounts and overlays', async () => {
      await run(mounts)
      assert.equal(await run(seeMounts), seenMounts)
    })

    it('adds files to an overlay on the disk, and gets an error if it removes a file of a lower layer', async () => {
      await run(`${overlayOnDisk}; echo new | sudo tee /mnt/other/new`)
      assert.match(await run('sudo rm /mnt/other/gone 2>&1 || true'), /Operation not permitted/)
      assert.equal(await run('cat /mnt/other/gone /mnt/other/new'), 'below\nnew\n')
      await run('sudo rm /mnt/other/new && sudo umount /mnt/other')
    })

    it('ends its own sandbox if it removes a file of a lower layer that it changed on the disk', async () => {
      const own = await Sandbox.create('base', warren.client)
      await run(`sudo mkdir /var/lower && echo below | sudo tee /var/lower/gone && ${overlayOnDisk}`, own)
      await run('echo changed | sudo tee /mnt/other/gone', own)
      await assert.rejects(run('sudo rm /mnt/other/gone', own))
      await eventually(async () => {
        const last = (await readLog(warren, own.sandboxId)).at(-1)
        assert.match(last?.message ?? '', /^Sandbox ended: its processes crashed/)
      })
    })

    it('mounts FUSE file systems, as root and as a user', async () => {
      await run(fuse)
      assert.equal(await run(seeFuse), seenFuse)
    })

    it('keeps mounts and the programs that serve them over pause and fork', async () => {
      await sandbox.pause()
      sandbox = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      const [fork] = await sandbox.fork({ timeoutMs: 3_600_000 })
      assert.ok(fork instanceof Sandbox, String(fork))
      for (const one of [sandbox, fork]) {
        assert.equal(await run(seeMounts, one), seenMounts)
        assert.equal(await run(seeFuse, one), seenFuse)
      }
      await fork.kill()
    })

    it('pings, as root and as a user', async () => {
      for (const prefix of ['', 'sudo ']) {
        assert.match(await run(`${prefix}ping -c 1 127.0.0.1`), / 0% packet loss/)
      }
    })

    it('has a firewall of its own', async () => {
      assert.equal(await run(firewall), '-P PREROUTING ACCEPT\n')
    })

    it('creates namespaces, bridges and links, and a pause is rejected while they are in use', async () => {
      const own = `set -e
sudo ip link add br0 type bridge && sudo ip addr add 192.168.77.1/24 dev br0 && sudo ip link set br0 up
sudo ip netns add other && sudo ip link add inner type veth peer name outer
sudo ip link set outer master br0 && sudo ip link set outer up && sudo ip link set inner netns other
sudo ip -n other addr add 192.168.77.2/24 dev inner && sudo ip -n other link set inner up
(sudo ip netns exec other python3 -m http.server 9001 > other.log 2>&1 &)
until curl -s -o /dev/null --max-time 2 http://192.168.77.2:9001/; do read -t 0.1 <> <(:) || true; done`
      await run(own)
      await assert.rejects(
        sandbox.pause(),
        /keeps running: a process in it has a network namespace of its own/,
      )
      assert.equal(await run('curl -s -o /dev/null -w %{http_code} http://192.168.77.2:9001/'), '200')
      await run('sudo pkill -f "[h]ttp.server 9001"; sudo ip netns del other; sudo ip link del br0')
      await sandbox.pause()
      sandbox = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      assert.equal(await run('echo alive'), 'alive\n')
    })

    it('cannot set the clock and reaches no disk of the machine', async () => {
      await assert.rejects(run('sudo date -s 2001-01-01'))
      await assert.rejects(run('sudo mount -t ext4 /dev/vda /media'))
      await assert.rejects(run('sudo sh -c "mknod /dev/own b 254 0 && head -c 1 /dev/own"'))
    })
  })
}

if (isolations.includes('container')) {
  it('root in a container has none of these powers', async () => {
    const warren = await startWarren('container')
    try {
      const sandbox = await Sandbox.create('base', warren.client)
      await assert.rejects(sandbox.commands.run('sudo mount -t tmpfs none /mnt'))
      await assert.rejects(sandbox.commands.run('sudo unshare --net true'))
    } finally {
      await warren.stop()
    }
  })
}
