/** Tests of what a sandbox cannot see or do, from inside a running one. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readlinkSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { eventually } from '../../../../test/support/eventually.ts'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { openCgroups } from '../../host/process/cgroups.ts'
import { createLayout } from '../../host/record/layout.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciBench } from './bench.ts'

/** Tries each call as sandbox root and prints `name errno`, 0 for one that went through. */
const trySyscalls = `python3 - <<'END'
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
numbers = dict(mount=(165,40), umount2=(166,39), pivot_root=(155,41), unshare=(272,97), setns=(308,268), bpf=(321,280),
  perf_event_open=(298,241), io_uring_setup=(425,425), keyctl=(250,219), add_key=(248,217), userfaultfd=(323,282),
  init_module=(175,105), finit_module=(313,273), delete_module=(176,106), kexec_load=(246,104), reboot=(169,142),
  open_by_handle_at=(304,265), swapon=(167,224), settimeofday=(164,170), clock_settime=(227,112), syslog=(103,116),
  acct=(163,89), quotactl=(179,60), fsopen=(430,430), open_tree=(428,428), move_mount=(429,429), mount_setattr=(442,442),
  fanotify_init=(300,262), sethostname=(170,161), socket=(41,198), clone=(56,220), clone3=(435,435), iopl=(172,None))
def call(label, name, *args):
    number = numbers[name][1 if arm else 0]
    if number is None: return
    ctypes.set_errno(0)
    result = libc.syscall(number, *args)
    print(label, 0 if result >= 0 else ctypes.get_errno(), flush=True)
none = ctypes.c_char_p(b'none'); target = ctypes.c_char_p(b'/mnt'); tmpfs = ctypes.c_char_p(b'tmpfs')
call('mount', 'mount', none, target, tmpfs, 0, None)
call('bind', 'mount', ctypes.c_char_p(b'/etc'), target, None, 4096, None)
call('umount', 'umount2', ctypes.c_char_p(b'/proc'), 2)
call('pivot_root', 'pivot_root', target, target)
call('clone3', 'clone3', None, 0)
call('setns', 'setns', 0, 0)
for name in ['bpf', 'perf_event_open', 'io_uring_setup', 'keyctl', 'add_key', 'userfaultfd', 'init_module', 'finit_module',
  'delete_module', 'kexec_load', 'reboot', 'open_by_handle_at', 'swapon', 'clock_settime', 'acct', 'quotactl', 'fsopen',
  'open_tree', 'move_mount', 'mount_setattr', 'fanotify_init', 'iopl']:
    call(name, name, 0, 0, 0, 0, 0)
call('syslog', 'syslog', 3, ctypes.create_string_buffer(64), 64)
for label, family, kind in [('packet', 17, 3), ('raw', 2, 3), ('vsock', 40, 1), ('alg', 38, 5), ('bluetooth', 31, 3)]:
    call('socket-' + label, 'socket', family, kind, 1 if label == 'raw' else 0)
for name, flag in [('user', 0x10000000), ('mount', 0x20000), ('pid', 0x20000000), ('net', 0x40000000)]:
    call('unshare-' + name, 'unshare', flag)
call('clone-user', 'clone', 0x10000000 | 17, 0, 0, 0, 0)
END`

/** EPERM, EACCES and ENOSYS: only these prove that the filter rejected the call, and not a bad argument. */
const refusals = ['1', '13', '38']
/** Calls that are allowed under gVisor, because they act on the sandbox's own kernel. */
const ownKernel = /^(unshare-|clone|syslog)/
/** Calls that are allowed to a root with all capabilities under gVisor: also mounts and raw packets. */
const ownKernelOfRoot = /^(unshare-|clone|syslog|mount|bind|umount|pivot_root|socket-(raw|packet))/

/** Numbers of Linux devices that reach beyond a sandbox; the last is the disk that this test runs on. */
const hostDevices = (disk: number) => [
  ...['b 254 0', 'b 7 0', 'b 8 0', 'c 1 1', 'c 1 4', 'c 1 11', 'c 5 1', 'c 10 232', 'c 10 237'],
  `b ${(disk >> 8) & 0xfff} ${disk & 0xff}`,
]

/** Prints whether there is a hypervisor, and the first letters of its name. gVisor's own answer to CPUID knows of none. */
const askHypervisor = `python3 - <<'END'
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# push rbx; mov eax, edi; xor ecx, ecx; cpuid; mov eax, ebx or ecx; pop rbx; ret
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
def ask(leaf, move):
    page[0:11] = bytes.fromhex('5389f831c90fa2' + move + '5bc3')
    return ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(at)(leaf)
print(ask(1, '89c8') >> 31, ask(0x40000000, '89d8'))
END`

function whyNoHypervisor(): string | false {
  const isThere = execFileSync('sh', ['-c', askHypervisor], { encoding: 'utf8' }).startsWith('1 ')
  return isThere ? false : 'no hypervisor has a name here'
}

export function isolationSuite(runtime: 'runc' | 'runsc', open: () => Promise<OciBench>): void {
  describe(`inside a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let handle: DriverHandle
    const isFullRoot = flavourOf({ runtime }).hasOwnKernel
    before(async () => {
      bench = await open()
      handle = await bench.sandbox()
    })
    after(() => bench?.close())
    const run = (script: string) => bench.run(handle, script)

    it('root is nobody outside', async () => {
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      assert.equal((await run('id -u')).trim(), '0')
      // A process that is about to end may be gone before this reads it.
      await eventually(async () => {
        const pids = await openCgroups().pids(layout.cgroup(String(handle.data.sandboxID)))
        assert.ok(pids.length > 0)
        for (const pid of pids) {
          const status = await readFile(`/proc/${pid}/status`, 'utf8')
          const uids = /^Uid:\s+(.*)$/m.exec(status)![1]!.split(/\s+/).map(Number)
          assert.ok(
            uids.every((uid) => uid >= 100_000),
            `process ${pid} runs as ${uids}`,
          )
        }
      })
    })

    it('its namespaces are its own, and under gVisor its kernel too', async () => {
      const version = (await run('cat /proc/version')).trim()
      const isHosts = version === (await readFile('/proc/version', 'utf8')).trim()
      assert.equal(isHosts, !isFullRoot, version)
      // Numbers of namespaces are those of the kernel that gives them.
      if (!isHosts) return
      const kinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts']
      const inside = (await run(`cd /proc/self/ns && readlink ${kinds.join(' ')}`)).trim().split('\n')
      const outside = kinds.map((kind) => readlinkSync(`/proc/self/ns/${kind}`))
      assert.equal(inside.length, kinds.length)
      assert.deepEqual(
        inside.filter((name) => outside.includes(name)),
        [],
      )
    })

    it('setuid programs work, and so do chown, useradd and su', async () => {
      const script = `useradd -m tester && chown tester /home/tester && su tester -c 'id -un' &&
        echo 'tester ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/tester && su tester -c 'sudo -n id -u'`
      assert.equal((await run(script)).trim(), 'tester\n0')
    })

    it('only its own processes are visible, and the agent is the first', async () => {
      assert.match(await run('cat /proc/1/cmdline'), /agent\.pl/)
      const pids = (await run('ls /proc')).split('\n').filter((name) => /^\d+$/.test(name))
      assert.ok(pids.length < 10, `${pids.length} processes`)
      assert.ok(!pids.includes(String(process.pid)) || Number(process.pid) < 10)
    })

    it('the host’s files cannot be reached by any path through /proc', async () => {
      const here = bench.options.dataFolder
      const script = `ls -d ${here} /proc/1/root${here} /proc/1/cwd${here} /proc/self/root${here}; for fd in /proc/1/fd/*; do ls -d $fd${here}; done`
      assert.equal(await run(`exec 2>/dev/null\n${script}`), '')
    })

    it('its mounts show no path of the host', async () => {
      const { dataFolder, instance } = bench.options
      const mounts = await run('cat /proc/self/mountinfo /proc/self/mounts')
      assert.match(mounts, /\/\.warren/)
      const folders = [dataFolder, bench.agent.folder, bench.rootFolder].flatMap((path) => [
        path,
        dirname(path),
      ])
      for (const path of [...folders, instance, 'sandboxes']) {
        assert.ok(!mounts.includes(path), `${path} is in:\n${mounts}`)
      }
    })

    if (runtime === 'runc') {
      it('figures of the whole machine are not shown', async () => {
        const counted = ['vmstat', 'zoneinfo', 'buddyinfo', 'softirqs', 'pressure', 'locks', 'diskstats']
        const files = [
          ...counted,
          'fs',
          'bus',
          'irq',
          'sys/fs/file-nr',
          'sys/fs/inode-nr',
          'sys/kernel/pty/nr',
        ]
        const script = `cd /proc && for each in ${files.join(' ')}; do [ ! -d $each ] || ls $each; [ ! -f $each ] || cat $each; [ ! -c $each ] || cat $each; done`
        assert.equal(await run(script), '')
      })
    }

    it('its first process holds no file of the host but the null device and its own socket', async () => {
      const targets = (await run('cd /proc/1/fd && for fd in *; do echo "$fd $(readlink $fd)"; done'))
        .trim()
        .split('\n')
        // A connection that ended between the listing and the readlink has a number and no target.
        .filter((line) => /^\d+ \S/.test(line))
      assert.equal(targets.length, 4, targets.join('\n'))
      for (const target of targets) assert.match(target, /^[012] (\/dev\/null|host:\[\d\])$|^3 socket:/)
    })

    it('the environment of the first process holds nothing of the server’s', async () => {
      const names = (await run("tr '\\0' '\\n' < /proc/1/environ"))
        .trim()
        .split('\n')
        .map((line) => line.split('=')[0])
      const allowed = ['PATH', 'HOME']
      assert.deepEqual(
        names.filter((name) => !allowed.includes(name!)),
        [],
      )
    })

    it('root has the allowed capabilities and cannot get more', async () => {
      // All 41 but sys_ptrace and sys_resource, or chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot,
      // audit_write, setfcap
      const expected = isFullRoot ? '000001fffef7ffff' : '00000000a00405fb'
      const status = await run('cat /proc/self/status')
      for (const set of ['CapPrm', 'CapEff', 'CapBnd']) {
        assert.equal(new RegExp(`^${set}:\\s*(\\S+)`, 'm').exec(status)?.[1], expected, set)
      }
    })

    it('system calls that reach for the host’s kernel are rejected', async () => {
      // The namespace of its own makes an unmount affect this program only.
      const alone = isFullRoot ? 'unshare --mount --propagation private ' : ''
      const lines = (await run(`${alone}${trySyscalls}`))
        .trim()
        .split('\n')
        .map((line) => line.split(' '))
      assert.ok(lines.length >= 38, `only ${lines.length} calls were tried:\n${lines.join('\n')}`)
      const wrong =
        runtime === 'runc'
          ? lines.filter(([, errno]) => !refusals.includes(errno!))
          : lines.filter(
              ([name, errno]) => errno === '0' && !(isFullRoot ? ownKernelOfRoot : ownKernel).test(name!),
            )
      assert.deepEqual(wrong, [])
    })

    it('no device of the host exists, and a device node that is made cannot be opened', async () => {
      const devices = (await run('ls /dev')).trim().split('\n')
      const usual = [
        'fd',
        'full',
        'mqueue',
        'null',
        'ptmx',
        'pts',
        'random',
        'shm',
        'stderr',
        'stdin',
        'stdout',
        'tty',
        'urandom',
        'zero',
      ]
      const gvisorsOwn = ['char', 'core', 'fuse', 'net']
      assert.deepEqual(
        devices.filter((name) => ![...usual, ...(runtime === 'runsc' ? gvisorsOwn : [])].includes(name)),
        [],
      )
      const folders = isFullRoot ? '/tmp /dev /dev/shm /mnt/devices' : '/tmp /dev /dev/shm'
      const numbers = hostDevices((await stat('/')).dev)
      const prepare = isFullRoot ? 'mkdir -p /mnt/devices; mount -t tmpfs none /mnt/devices; ' : ''
      const tries = numbers.map(
        (number, at) => `mknod $folder/${at} ${number} 2>&1; head -c 1 $folder/${at} 2>&1`,
      )
      const made = await run(
        `${prepare}for folder in ${folders}; do ${tries.join('; ')}; rm -f $folder/?; done`,
      )
      const refusals = made.trim().split('\n')
      assert.deepEqual(
        refusals.filter((line) => !/not permitted|denied|No such (device|file)/i.test(line)),
        [],
      )
      assert.ok(refusals.length >= numbers.length * folders.split(' ').length, made)
    })

    it('no file under /proc and /sys that controls the host can be written', async () => {
      const paths = [
        '/proc/sys/kernel/core_pattern',
        '/proc/sys/kernel/modprobe',
        '/proc/sys/vm/drop_caches',
        '/proc/sysrq-trigger',
        '/sys/kernel/uevent_helper',
        '/sys/fs/cgroup/release_agent',
        '/sys/fs/cgroup/cgroup.procs',
        '/proc/1/oom_score_adj.x',
      ]
      const script = paths.map((path) => `(echo 1 > ${path}) 2>/dev/null && echo ${path}`).join('\n')
      assert.equal((await run(script)).trim(), '')
      assert.equal((await run('head -c 64 /proc/kcore 2>/dev/null | wc -c')).trim(), '0')
      assert.equal((await run('mkdir /sys/fs/cgroup/x 2>/dev/null && echo made')).trim(), '')
    })

    it('the agent’s folder is read-only, however it is mounted', async () => {
      const change = (folder: string) =>
        `touch ${folder}/x; rm ${folder}/agent.pl; (echo x >> ${folder}/agent.pl); chmod 777 ${folder}; mv ${folder}/agent.pl ${folder}/y`
      assert.match(await run(`(${change('/.warren')}) 2>&1`), /[Rr]ead-only/)
      const path = join(bench.agent.folder, 'agent.pl')
      const before = [await readFile(path, 'utf8'), (await stat(bench.agent.folder)).mode]
      await run(`exec 2>&1; mkdir -p /mnt/agent; mount -o remount,rw /.warren; ${change('/.warren')}
mount --bind /.warren /mnt/agent; mount -o remount,rw,bind /mnt/agent; ${change('/mnt/agent')}; umount /mnt/agent`)
      assert.deepEqual([await readFile(path, 'utf8'), (await stat(bench.agent.folder)).mode], before)
      assert.equal(existsSync(join(bench.agent.folder, 'x')), false)
    })

    it('it sees its own memory and CPUs only', async () => {
      assert.equal((await run('nproc')).trim(), '1')
      assert.equal((await run('grep -c ^processor /proc/cpuinfo')).trim(), '1')
      assert.equal((await run('grep -c "^cpu[0-9]" /proc/stat')).trim(), '1')
      assert.match(await run('grep MemTotal /proc/meminfo'), / 262144 kB/)
      assert.match(await run('free -m'), /Mem:\s+256 /)
    })

    it('it can connect to itself at ::1, and has no other IPv6 address', async () => {
      const python = [
        'import socket',
        "listening = socket.create_server(('::1', 0), family=socket.AF_INET6)",
        'calling = socket.create_connection(listening.getsockname()[:2])',
        "print(calling.getpeername()[0], socket.getaddrinfo('ip6-localhost', 1)[0][4][0])",
        'out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)',
        "print(out.connect_ex(('2001:db8::1', 1)) != 0)",
      ]
      assert.equal(await run(`python3 -c "${python.join('\n')}"`), '::1 ::1\nTrue\n')
    })

    it('programs can read the CPU’s features and their own start times', async () => {
      assert.match(await run('grep -m 1 -E "^(flags|Features)" /proc/cpuinfo'), /: \w+( \w+){5}/)
      const ageSeconds = Number(await run('echo $(($(date +%s) - $(date -d "$(ps -o lstart= -p $$)" +%s)))'))
      assert.ok(ageSeconds >= -1 && ageSeconds < 60, `this shell began ${ageSeconds} seconds ago`)
    })

    const cannotAsk = process.arch === 'x64' ? whyNoHypervisor() : 'CPUID is an instruction of x86-64'
    it('the CPU itself answers CPUID', { skip: cannotAsk }, async () => {
      assert.equal(await run(askHypervisor), execFileSync('sh', ['-c', askHypervisor], { encoding: 'utf8' }))
    })

    it('its boot id is its own, and it has an uptime', async () => {
      const bootIDFile = '/proc/sys/kernel/random/boot_id'
      const [bootID, uptime] = (await run(`cat ${bootIDFile} /proc/uptime`)).split('\n')
      assert.match(bootID!, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
      assert.notEqual(bootID, (await readFile(bootIDFile, 'utf8')).trim())
      assert.match(uptime!, /^\d+\.\d+ \d+\.\d+$/)
    })

    it('its hostname, hosts file and machine id are its own, and it may edit them', async () => {
      const { sandboxID } = handle.data
      assert.equal((await run('hostname; cat /etc/hostname')).trim(), `${sandboxID}\n${sandboxID}`)
      assert.match(await run('cat /etc/hosts'), new RegExp(`127\\.0\\.1\\.1\\s+${sandboxID}`))
      assert.match(await run('cat /etc/machine-id'), /^[0-9a-f]{32}\n$/)
      assert.equal(
        await run(
          'for file in hosts resolv.conf hostname machine-id; do echo "# mine" >> /etc/$file || echo $file; done',
        ),
        '',
      )
      assert.match(await run('stat -c %a:%U /etc /tmp /'), /^755:root\n1777:root\n755:root\n$/)
    })

    if (runtime === 'runsc') {
      it('the gofer, gVisor’s file server, has an empty network namespace', async () => {
        const layout = createLayout(bench.options.dataFolder, bench.options.instance)
        const empty = await stat(layout.emptyNetworkPath)
        const pids = await openCgroups().pids(layout.cgroup(String(handle.data.sandboxID)))
        const words = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8')))
        const servers = pids.filter((_, index) => words[index]!.startsWith('runsc-gofer'))
        assert.equal(servers.length, 1, words.join('\n'))
        assert.equal((await stat(`/proc/${servers[0]}/ns/net`)).ino, empty.ino)
      })
    }

    it('the null device is a device and /tmp is on the disk', async () => {
      assert.equal((await run('head -c 1 /dev/null | wc -c; test -c /dev/null && echo yes')).trim(), '0\nyes')
      assert.equal(new Set((await run('stat -c %d /tmp /')).trim().split('\n')).size, 1)
    })
  })
}
