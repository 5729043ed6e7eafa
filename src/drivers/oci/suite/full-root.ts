/** Attacks of a root with nearly all capabilities on neighbours, the machine and its own limits (J9). Only gVisor grants them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { parseSubnet } from '../../host/network/addresses.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciBench } from './bench.ts'
import { closed, internet, Outside, port } from './outside.ts'
import type { OciSuite } from './runtimes.ts'

/** Sends a datagram with any sender address through a raw socket. */
const forge = `
import socket, struct
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def send(text, source, target):
    body = struct.pack('>HHHH', 9, ${port}, 8 + len(text), 0) + text.encode()
    head = struct.pack('>BBHHHBBH4s4s', 69, 0, 20 + len(body), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target))
    try: raw.sendto(head + body, (target, 0))
    except OSError as error: print(error)
`

const python = (lines: string) => `python3 - <<'END'\n${lines}\nEND`

export const fullRootSuite: OciSuite = (runtime, open) => {
  if (!flavourOf({ runtime }).hasOwnKernel) return
  describe(`root with nearly all capabilities under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let mine: DriverHandle
    let theirs: DriverHandle
    before(async () => {
      bench = await open()
      outside = new Outside(bench.options.instance)
      await outside.open()
      mine = await bench.sandbox()
      theirs = await bench.sandbox()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })
    const run = (script: string, on = mine) => bench.run(on, script)
    const addressOf = (handle: DriverHandle) => bench.driver.endpoint(handle, 0).host
    /** Datagrams of one program arrive in order: those that have not come before the last one are lost. */
    const sendAll = async (lines: string, last: string) => {
      await run(python(`${forge}${lines}\nsend('${last}', '${addressOf(mine)}', '${internet}')`))
      return outside.sees(new RegExp(last))
    }

    it('pings, and sends packets with no address but its own', async () => {
      assert.match(await run(`ping -c 1 ${internet}`), / 0% packet loss/)
      const [own, other] = [addressOf(mine), addressOf(theirs)]
      const { capacity, gateway, sandbox } = parseSubnet(bench.options.subnet)
      const slot = [...Array(capacity).keys()].find((each) => sandbox(each) === own)!
      const forged = [other, gateway(slot), '192.0.2.7', '127.0.0.1', '203.0.113.1']
      const lines = forged.map((source) => `send('forged by ${source}', '${source}', '${internet}')`)
      assert.doesNotMatch(await sendAll(lines.join('\n'), 'own address'), /forged/)
    })

    it('receives nothing at an address that it assigns to itself, and cannot send raw frames', async () => {
      const other = addressOf(theirs)
      const frames = `
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)); link.bind(('eth0', 0x0806))
arp = struct.pack('>HHBBH', 1, 0x800, 6, 4, 2) + bytes(6) + socket.inet_aton('${other}') + bytes(6) + socket.inet_aton('${other}')
try: print('sent', link.send(bytes([255] * 6) + bytes(6) + struct.pack('>H', 0x806) + arp))
except OSError as error: print('refused')`
      assert.match(await run(python(`${forge}${frames}`)), /refused/)
      const addressUsed = `ip addr add ${other}/32 dev eth0 && ${python(`
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sender.bind(('${other}', 0))
sender.sendto(b'taken address', ('${internet}', ${port}))
print('sent')`)}
ip addr del ${other}/32 dev eth0`
      assert.match(await run(addressUsed), /sent/)
      assert.doesNotMatch(await sendAll('', 'given back'), /taken/)
      assert.match(await run('hostname -I', theirs), new RegExp(other.replaceAll('.', '\\.')))
      assert.match(await run(`ping -c 1 ${internet}`, theirs), / 0% packet loss/)
    })

    it('reaches no closed range and no neighbour by packets of its own making', async () => {
      const listen = python(`
import os, socket
listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); listening.bind(('', ${port}))
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    while True: open('/tmp/heard', 'ab').write(listening.recv(1000))`)
      await run(listen, theirs)
      const targets = [...closed, addressOf(theirs)]
      const lines = targets.map((target) => `send('intruder', '${addressOf(mine)}', '${target}')`)
      assert.doesNotMatch(await sendAll(lines.join('\n'), 'after closed ranges'), /intruder/)
      assert.equal(await run('cat /tmp/heard 2>/dev/null', theirs), '')
    })

    it('cannot mount a file system that the host would serve', async () => {
      const { dataFolder } = bench.options
      const tries = [
        ...['mount -t 9p -o trans=fd,rfdno=3,wfdno=3,aname=/ none /mnt', 'mount -t erofs /dev/null /mnt'],
        ...['mount -t ext4 /dev/vda /mnt', 'mount -o loop /etc/passwd /mnt', 'mount -t nfs 127.0.0.1:/ /mnt'],
        ...[`mount --bind ${dataFolder} /mnt`, `mount -t overlay -o lowerdir=${dataFolder}:/etc none /mnt`],
      ]
      const script = tries.map((one) => `${one} >/dev/null 2>&1 && echo '${one}' && umount /mnt`)
      assert.equal(await run(`${script.join('\n')}\ntrue`), '')
    })

    it('loads no module, changes no settings of the host’s kernel, and sets no clock', async () => {
      const before = Date.now()
      await run(`date -s 2001-01-01; echo b > /proc/sysrq-trigger; echo '|/bin/false' > /proc/sys/kernel/core_pattern;
python3 -c 'import ctypes; libc = ctypes.CDLL(None); libc.reboot(0x01234567)'; true`)
      assert.equal((await run('echo alive')).trim(), 'alive')
      const inside = Number(await run('date +%s')) * 1000
      assert.ok(inside >= before - 2000 && inside <= Date.now() + 2000, `it is ${inside} inside`)
    })

    it('has a memory file system that it mounts counted as its memory', async () => {
      const usedBy = async () => (await bench.driver.stats(mine)).memoryUsedBytes
      const before = await usedBy()
      await run(
        'mkdir -p /mnt/memory; mount -t tmpfs -o size=10g none /mnt/memory; head -c 96M /dev/urandom > /mnt/memory/file',
      )
      assert.ok((await usedBy()) - before > 80 << 20, `from ${before} to ${await usedBy()} bytes`)
      await run('umount /mnt/memory')
    })
  })
}
