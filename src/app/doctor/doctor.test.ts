import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { findCgroupMounts } from '../../drivers/host/process/cgroup-mounts.ts'
import { loadConfig } from '../config/config.ts'
import { startSomething } from '../isolation/start-something.ts'
import { ok } from '../setup/finding.ts'
import { examine } from './doctor.ts'
import {
  judgeArchitecture,
  judgeCapabilities,
  judgeCgroups,
  judgeKernel,
  judgePages,
} from './kernel-checks.ts'
import { judgeForwarding, judgeRoute } from './network-checks.ts'
import { judgeDisk, judgeMemory } from './resource-checks.ts'
import { judgePrograms } from './runtime-checks.ts'

const config = loadConfig({})

test('a check that throws is a failure with its message, and the next checks still run', async () => {
  const checks = [
    {
      name: 'broken',
      look: () => {
        throw new Error('no such thing')
      },
    },
    { name: 'fine', look: async () => ok('yes') },
  ]
  const found = await examine(checks, config)
  assert.deepEqual(
    found.map((one) => one.status),
    ['fail', 'ok'],
  )
  assert.match(found[0]!.text, /no such thing/)
})

test('kernels are judged by their version', () => {
  assert.equal(judgeKernel('4.4.0-210-generic').status, 'fail')
  assert.equal(judgeKernel('4.19.0').status, 'warn')
  assert.equal(judgeKernel('6.1.0-18-amd64').status, 'ok')
})

test('arm64 is accepted with a note, and other processors are rejected', () => {
  assert.equal(judgeArchitecture('arm64').status, 'warn')
  assert.equal(judgeArchitecture('ia32').status, 'fail')
})

test('pages of 16 and 64 kB are reported, because gVisor does not run on them', () => {
  assert.equal(judgePages(4096).status, 'ok')
  for (const bytes of [16_384, 65_536]) {
    const found = judgePages(bytes)
    assert.equal(found.status, 'warn')
    assert.match(found.text, new RegExp(`^${bytes / 1024} kB: gVisor needs pages of 4 kB`))
  }
})

test('a root user without the capability to mount is reported', () => {
  assert.equal(judgeCapabilities('CapEff:\t000001ffffffffff\n').status, 'ok')
  const docker = judgeCapabilities('CapEff:\t00000000a80425fb\n')
  assert.equal(docker.status, 'fail')
  assert.match(docker.text, /CAP_NET_ADMIN, CAP_SYS_ADMIN/)
})

const v1Mounts = ['cpu', 'memory', 'pids']
  .map((name) => `cgroup /sys/fs/cgroup/${name} cgroup rw,relatime,${name} 0 0`)
  .join('\n')
const v2Mount = 'cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0'

test('cgroups are recognized in every arrangement', () => {
  assert.match(judgeCgroups(v2Mount, 'cpuset cpu io memory pids').text, /^v2,/)
  assert.match(judgeCgroups(v1Mounts, '').text, /^v1,/)
  assert.match(judgeCgroups(`${v1Mounts}\n${v2Mount}`, '').text, /^v1 with a v2 mount/)
  const bare = judgeCgroups(v2Mount, 'cpu pids')
  assert.equal(bare.status, 'fail')
  assert.match(bare.text, /without memory/)
  assert.match(judgeCgroups('', '').text, /^none/)
})

test('a Docker rule that drops forwarded traffic is found, with the chain that fixes it', () => {
  const docker =
    'table ip filter {\n chain DOCKER-USER {\n }\n chain FORWARD {\n type filter hook forward priority filter; policy drop;\n }\n}'
  const finding = judgeForwarding(docker, '10.213.0.0/16')
  assert.equal(finding.status, 'warn')
  assert.match(finding.remedy!, /-I DOCKER-USER -s 10\.213\.0\.0\/16/)
  assert.match(judgeForwarding('-P INPUT ACCEPT\n-P FORWARD DROP\n', '10.1.0.0/16').remedy!, /-I FORWARD/)
  const open = 'chain FORWARD {\n type filter hook forward priority filter; policy accept;\n }'
  assert.equal(judgeForwarding(open, '10.213.0.0/16').status, 'ok')
})

test('missing programs are a warning where apt-get can get them and a failure elsewhere', () => {
  const missing = [{ package: 'nftables', file: 'nft', why: '' }]
  assert.equal(judgePrograms([], false).status, 'ok')
  assert.equal(judgePrograms(missing, true).status, 'warn')
  assert.match(judgePrograms(missing, false).text, /nft/)
  assert.equal(judgePrograms(missing, false).status, 'fail')
})

test('little disk space and little memory are reported', () => {
  assert.equal(judgeDisk(2 * 1024 ** 3, '/data').status, 'fail')
  assert.equal(judgeDisk(5 * 1024 ** 3, '/data').status, 'warn')
  assert.equal(judgeDisk(50 * 1024 ** 3, '/data').status, 'ok')
  assert.equal(judgeMemory('MemTotal: 2000000 kB\nMemAvailable: 500000 kB\n', 1024).status, 'warn')
  assert.equal(judgeMemory('MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n', 1024).status, 'ok')
})

test('a runtime that fails half-way leaves no cgroup and no process behind', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-half-way-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  const [hierarchy] = findCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8')).all
  const group = `${hierarchy}/warren-trial-${process.pid}`
  const runtime = join(folder, 'runtime')
  const joinGroup = `mkdir ${group}; sleep 1000 >/dev/null 2>&1 & echo $! > ${group}/cgroup.procs; echo $! > ${folder}/pid`
  const script = `#!/bin/sh\ncase "$*" in *" run "*) ${joinGroup}; echo 'out of sorts' >&2; exit 1 ;; esac\n`
  writeFileSync(runtime, script, { mode: 0o755 })
  await assert.rejects(startSomething(runtime, []), /out of sorts/)
  assert.equal(existsSync(group), false)
  const pid = Number(readFileSync(join(folder, 'pid'), 'utf8'))
  assert.equal(existsSync(`/proc/${pid}/exe`), false)
})

test('a machine with IPv6 alone is told that its sandboxes reach nothing outside', () => {
  assert.equal(judgeRoute('default via 192.0.2.1 dev eth0\n').status, 'ok')
  assert.match(judgeRoute('').text, /no IPv4 route out, so sandboxes reach nothing outside/)
  assert.match(judgeRoute('').remedy!, /464XLAT/)
})
