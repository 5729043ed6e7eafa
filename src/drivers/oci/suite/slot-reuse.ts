/** Tests that the next sandbox in a slot sees nothing of the sandbox that had the slot before (I8). */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { openRules } from '../../../core/ports/egress.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciBench } from './bench.ts'
import { elsewhere, internet, Outside, port, reachFrom } from './outside.ts'
import { type OciSuite, smallestSubnet } from './runtimes.ts'

const mark = 'secret-of-the-former'
const datagramPort = 40_000

/** Answers each TCP connection once, and keeps sending datagrams to every client of UDP. */
const outsideServer = `
import socket, threading, time
def serve(server):
    while True:
        client, peer = server.accept()
        client.sendall(('from ' + peer[0]).encode()); client.close()
def tell(datagrams, peer):
    try:
        while True: datagrams.sendto(b'${mark}', peer); time.sleep(0.05)
    except OSError: pass
def listen(datagrams):
    while True: threading.Thread(target=tell, args=(datagrams, datagrams.recvfrom(100)[1]), daemon=True).start()
threading.Thread(target=serve, args=(socket.create_server(('', ${port})),)).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(('${internet}', ${port}))
threading.Thread(target=listen, args=(datagrams,)).start()
print('ready', flush=True)
`

/** Prints the datagrams that arrive on a port. With `speak`, it sends one from there first. */
const hear = (speak: boolean) => `python3 - <<'END'
import socket
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('', ${datagramPort})); datagrams.settimeout(2)
${speak ? `datagrams.sendto(b'hello', ('${internet}', ${port}))` : ''}
try: print(datagrams.recv(100).decode())
except TimeoutError: print('nothing')
END`

/** Leaves marks in files, raw disk blocks, memory, IPC objects, sockets and processes. */
const leaveMarks = `for place in /root /tmp /var/tmp /dev/shm /home; do echo ${mark} > $place/${mark}; done
yes ${mark} | head -c 20000000 > /root/blocks; sync; rm /root/blocks
ipcmk -Q >/dev/null; ipcmk -M 4096 >/dev/null; ipcmk -S 1 >/dev/null
setsid python3 -c "
import socket, time
kept = b'${mark}' * 1000000
local = socket.socket(socket.AF_UNIX); local.bind('\\0${mark}'); local.listen()
server = socket.create_server(('', 7000)); print('ready', flush=True); time.sleep(600)" ${mark} </dev/null >/tmp/left 2>&1 &
while [ ! -s /tmp/left ]; do sleep 0.05; done`

/** Prints every mark that it finds, one per line. */
const findMarks = `find /root /tmp /var/tmp /dev/shm /home -name '*secret-of*'
fallocate -l 40M /root/unwritten && grep -c ${mark} /root/unwritten | grep -v '^0$'
python3 - <<'END'
import mmap
memory = mmap.mmap(-1, 100 << 20)
while part := memory.read(1 << 20):
    if part.count(0) != len(part): print('memory of others')
END
ipcs -q -m -s | grep '^0x'
grep 'secret-o[f]' /proc/net/unix
pgrep -f 'secret-o[f]'
grep -h ':1B58 ' /proc/net/tcp /proc/net/tcp6 2>/dev/null
true`

export const slotReuseSuite: OciSuite = (runtime, open) => {
  describe(`the next sandbox in a slot under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    before(async () => {
      bench = await open({ subnet: smallestSubnet(runtime), poolSize: 1 })
      outside = new Outside(bench.options.instance, outsideServer)
      await outside.open()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })

    /** Starts sandboxes, one after another, until one has this address. */
    async function nextAt(address: unknown): Promise<DriverHandle> {
      for (;;) {
        const handle = await bench.sandbox()
        if (handle.data.address === address) return handle
        await bench.driver.stop(handle)
      }
    }

    it('sees no file, block, memory, message, socket, datagram or rule of the sandbox before it', async () => {
      const former = await bench.sandbox({ egress: { ...openRules, deny: [`${elsewhere}/32`] } })
      await bench.run(former, leaveMarks)
      assert.equal((await bench.run(former, hear(true))).trim(), mark)
      assert.deepEqual(await reachFrom(bench, former, [`${elsewhere}:${port}`]), [''])
      assert.notEqual(await bench.run(former, findMarks), '')
      await bench.driver.stop(former)
      const next = await nextAt(former.data.address)
      assert.equal((await bench.run(next, hear(false))).trim(), 'nothing')
      assert.equal(await bench.run(next, findMarks), '')
      assert.deepEqual(await reachFrom(bench, next, [`${elsewhere}:${port}`]), ['from 203.0.113.1'])
      await bench.driver.stop(next)
    })

    if (flavourOf({ runtime }).hasOwnUsers) {
      it('has its full limits per user, whatever the users of the sandbox before it took', async () => {
        const bindAddress = `python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None); count = 0
while count < 20000 and libc.inotify_init() >= 0: count += 1
print(count)
END`
        const former = await bench.sandbox()
        const bound = await bench.run(former, bindAddress)
        await bench.driver.stop(former)
        const next = await nextAt(former.data.address)
        assert.equal(await bench.run(next, bindAddress), bound)
        await bench.driver.stop(next)
      })
    }
  })
}
