/** Tests of kernel resources that no cgroup limits: a sandbox that takes all it can get leaves enough for the others. */
import assert from 'node:assert/strict'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { openNativeLibc } from '../../../lib/native.ts'
import type { OciBench } from './bench.ts'

/** Python programs whose `take()` takes one more of a resource, and raises OSError when none is left. */
const resources = {
  terminals: `import os, pty
held = []
def take(): held.append(os.open('/dev/ptmx', os.O_RDWR))`,
  'watchers of files': `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def take():
    if libc.inotify_init() < 0: raise OSError(ctypes.get_errno(), 'inotify_init')`,
  'pending signals': `import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
def take():
    if libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(0)) < 0:
        raise OSError(ctypes.get_errno(), 'sigqueue')`,
  'descriptors in flight': `import array, os, resource, socket
pairs = []
null = os.open('/dev/null', os.O_RDONLY)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [null] * 200))]
def take():
    if pairs:
        try:
            pairs[-1][0].sendmsg([b'x'], rights, socket.MSG_DONTWAIT)
            return
        except BlockingIOError: pass
    pairs.append(socket.socketpair())
    pairs[-1][0].sendmsg([b'x'], rights, socket.MSG_DONTWAIT)`,
  timers: `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def take():
    # The numbers of timer_create.
    number = 222 if os.uname().machine == 'x86_64' else 107
    timer = ctypes.c_int()
    if libc.syscall(number, 1, None, ctypes.byref(timer)) < 0: raise OSError(ctypes.get_errno(), 'timer_create')`,
  'message queues and shared memory': `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def check(result, name):
    if result < 0: raise OSError(ctypes.get_errno(), name)
def take():
    check(libc.msgget(0, 0o1600), 'msgget')
    check(libc.semget(0, 1, 0o1600), 'semget')
    check(libc.shmget(0, 4096, 0o1600), 'shmget')`,
  'pages of pipes': `import fcntl, os
held = []
def take():
    held.append(os.pipe())
    # F_SETPIPE_SZ: beyond what a user may have, the kernel grants no more than it must.
    fcntl.fcntl(held[-1][0], 1031, 1 << 20)`,
} as const

type Resource = keyof typeof resources

/** Several users, because limits per user alone would not limit a sandbox's root. */
const users = [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007]
/** More tries than the kernel's limit per user. Each try takes 200 descriptors. gVisor counts in its own kernel. */
const maxTries = { runc: { each: 20_000, descriptors: 300 }, runsc: { each: 500, descriptors: 50 } }
type Tries = (typeof maxTries)['runc']

/** Takes all it can get, holds it in the background, and prints how many each user got. */
const takeAll = (resource: Resource, { each, descriptors }: Tries) => `cat > /tmp/take.py <<'END'
import os, sys, time
${resources[resource]}
count = 0
try:
    while count < ${resource === 'descriptors in flight' ? descriptors : each}:
        take()
        count += 1
except OSError: pass
print(count, flush=True)
os.close(1)
time.sleep(600)
END
for user in ${users.join(' ')}; do
  setpriv --reuid=$user --regid=$user --clear-groups python3 /tmp/take.py 2>/dev/null > /tmp/count-$user &
done
for user in ${users.join(' ')}; do
  while [ ! -s /tmp/count-$user ]; do sleep 0.05; done
done
cat /tmp/count-*`

const takeOne = (resource: Resource) => `setpriv --reuid=1000 --regid=1000 --clear-groups python3 - <<'END'
${resources[resource]}
take()
print('got one')
END`

export function kernelResourcesSuite(runtime: 'runc' | 'runsc', open: () => Promise<OciBench>): void {
  describe(`resources of the kernel under ${runtime}`, () => {
    let bench: OciBench
    let neighbour: DriverHandle
    before(async () => {
      bench = await open()
      neighbour = await bench.sandbox()
    })
    after(() => bench?.close())

    for (const resource of Object.keys(resources) as Resource[]) {
      it(`a sandbox that takes all ${resource} it can get leaves a neighbour and the host theirs`, async () => {
        const greedy = await bench.sandbox({ memoryMB: 1024 })
        const counts = (await bench.run(greedy, takeAll(resource, maxTries[runtime])))
          .trim()
          .split('\n')
          .map(Number)
        assert.equal(counts.length, users.length)
        assert.ok(
          counts.some((count) => count > 0),
          `nothing was taken: ${counts}`,
        )
        assert.equal((await bench.run(neighbour, takeOne(resource))).trim(), 'got one', `after ${counts}`)
        takeOneOutside[resource]?.()
        assert.equal((await bench.run(greedy, 'echo alive')).trim(), 'alive')
        await bench.driver.stop(greedy)
      })
    }

    it('takes no asynchronous I/O contexts of the host', async () => {
      const before = readFileSync('/proc/sys/fs/aio-nr', 'utf8')
      const script = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_ulong(0)
libc.syscall(206, 10000, ctypes.byref(context))
import sys; sys.stdout.write('tried'); sys.stdout.flush()
import time; time.sleep(600)`
      const command = `python3 -c "${script}" > /tmp/tried 2>&1 & while [ ! -s /tmp/tried ]; do sleep 0.05; done`
      await bench.run(neighbour, command)
      assert.equal(readFileSync('/proc/sys/fs/aio-nr', 'utf8'), before)
    })
  })
}

const libc = openNativeLibc('Nothing is tried on the host')

/** Takes one of the resource as the host's root, which must succeed. */
const takeOneOutside: Partial<Record<Resource, () => void>> = {
  terminals: () => closeSync(openSync('/dev/ptmx', 'r+')),
  'watchers of files': () => {
    const watcher = libc.func('int inotify_init1(int flags)')(0)
    assert.ok(watcher >= 0, 'the host has no watcher left')
    closeSync(watcher)
  },
}
