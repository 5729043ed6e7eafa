/**
 * A release on machines that have nothing: a small Debian without a network gets its first sandbox from the archive and from
 * the Debian package, is upgraded to a newer release, and is rid of Warren again.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeRelease, type Release } from '../../src/app/release/make-release.ts'
import { sha256OfFile } from '../../src/lib/file-digest.ts'
import { BareMachine, bareRoot } from '../support/bare-machine.ts'

const firstSandboxWithinSeconds = 20
const dependencies = ['nftables', 'iproute2', 'tini', 'runc', 'debconf']
const data = '/var/lib/warren'

const folder = mkdtempSync(join(tmpdir(), 'warren-bare-'))
const machines: BareMachine[] = []
let release: Release
let newer: Release

before(async () => {
  release = await makeRelease(join(folder, 'dist'))
  newer = await makeRelease(join(folder, 'newer'), { onlyArchive: true, version: '9.9.9' })
})
after(async () => {
  for (const machine of machines) await machine.end()
  rmSync(folder, { recursive: true, force: true })
})

async function bareMachine(distribution = 'bookworm', more: readonly string[] = []): Promise<BareMachine> {
  const machine = await BareMachine.start(folder, bareRoot(distribution, more))
  machines.push(machine)
  return machine
}

const size = (path: string) => `${Math.round(statSync(path).size / 1e6)} MB`

/**
 * The returned function prints what all took since, and holds it against the goal: in CPU time, and on the clock unless
 * others keep this machine busy.
 */
function measure(machine: BareMachine): (what: string) => void {
  const [startedAt, cpuBefore, loadBefore] = [performance.now(), machine.cpuSeconds, loadavg()[0]!]
  return (what) => {
    const cpu = machine.cpuSeconds - cpuBefore
    const clock = (performance.now() - startedAt) / 1000
    const said = `${what}: ${clock.toFixed(1)} s, ${cpu.toFixed(1)} s of CPU; load before ${loadBefore.toFixed(1)}`
    process.stdout.write(`  ${said}\n`)
    assert.ok(cpu < firstSandboxWithinSeconds, said)
    if (loadBefore < availableParallelism()) assert.ok(clock < firstSandboxWithinSeconds, said)
  }
}

/** Prints what a step took. */
function step(machine: BareMachine, title: string, script: string): string {
  const startedAt = performance.now()
  const { status, stdout, stderr } = machine.run(script)
  process.stdout.write(`  ${title}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`)
  assert.equal(status, 0, `${title}\n${stdout}\n${stderr}`)
  return stdout
}

const startScript = (program: string) => `
${program} start >>/root/log 2>&1 </dev/null &
until grep -q 'Warren serves at' /root/log; do
  kill -0 $! || { cat /root/log; exit 1; }
  sleep 0.2
done`

const stopScript = `
server=$(grep -oE '"pid": *[0-9]+' ${data}/server.json | grep -oE '[0-9]+$')
kill -INT "$server"
while kill -0 "$server" 2>/dev/null; do sleep 0.05; done
: >/root/log`

const copyTo = (machine: BareMachine, path: string) =>
  cpSync(path, join(machine.root, 'root', basename(path)))

test('everything of a release has a checksum, a list of its parts, and the same bytes when it is made again', async () => {
  const checked = spawnSync('sha256sum', ['-c', basename(release.checksums)], {
    cwd: dirname(release.checksums),
    encoding: 'utf8',
  })
  assert.equal(checked.status, 0, checked.stderr)
  assert.equal(checked.stdout.trim().split('\n').length, 4)
  const { components } = JSON.parse(readFileSync(release.sbom, 'utf8')) as { components: { purl: string }[] }
  for (const part of [/^pkg:npm\/fastify@/, /^pkg:golang\/gvisor\.dev\/gvisor@/, /^pkg:deb\/debian\/git@/])
    assert.ok(
      components.some(({ purl }) => part.test(purl)),
      String(part),
    )
  const again = await makeRelease(join(folder, 'again'))
  for (const kind of ['archive', 'package', 'image', 'sbom'] as const)
    assert.equal(await sha256OfFile(again[kind]!), await sha256OfFile(release[kind]!), kind)
  rmSync(join(folder, 'again'), { recursive: true })
})

test('the archive gives a machine without a network its first sandbox, and a newer one keeps what runs', async () => {
  const machine = await bareMachine()
  assert.equal(machine.run('ip link || wc -l < /proc/net/dev').stdout.trim(), '3', 'only the loopback')
  copyTo(machine, release.archive)
  process.stdout.write(`The archive, ${size(release.archive)}:\n`)
  step(
    machine,
    'unpack',
    `tar -xzf /root/${basename(release.archive)} -C /opt && mv /opt/warren-* /opt/warren`,
  )
  const warren = '/opt/warren/bin/warren'
  const measured = measure(machine)
  step(machine, 'start until it serves', startScript(warren))
  const said = step(machine, 'create a sandbox and run a command', `${warren} run -- sh -c 'whoami; dmesg'`)
  assert.match(said, /^user\n.*gVisor/s)
  measured('first sandbox')
  assert.match(step(machine, 'doctor', `${warren} doctor`), /ok +gVisor .*Warren can run here/s)

  const id = step(machine, 'create', `${warren} sandbox create --timeout 3600`).trim()
  step(
    machine,
    'write',
    `${warren} sandbox exec ${id} -- sh -c 'echo kept > file; sleep 9999 >/dev/null 2>&1 &'`,
  )
  for (const path of [newer.archive, newer.checksums]) copyTo(machine, path)
  const upgrade = `${warren} upgrade /root/${basename(newer.archive)}`
  machine.run(`cp /root/${basename(newer.checksums)} /root/sums; sed -i 's/^./x/' /root/*.sha256`)
  assert.match(machine.run(upgrade).stderr, /does not have the checksum/)
  machine.run(`mv /root/sums /root/${basename(newer.checksums)}`)
  assert.match(step(machine, 'upgrade', upgrade), /Warren 9\.9\.9 is in \/opt\/warren\. Restart Warren/)
  assert.equal(
    step(machine, 'exec while the old one serves', `${warren} sandbox exec ${id} -- cat file`),
    'kept\n',
  )
  step(machine, 'stop', stopScript)
  step(machine, 'start the newer one', startScript(warren))
  assert.equal(step(machine, 'version', `${warren} version`), '9.9.9\n')
  const running = step(
    machine,
    'look into the sandbox',
    `${warren} sandbox exec ${id} -- sh -c 'cat file; pgrep -c sleep'`,
  )
  assert.equal(running, 'kept\n1\n')
})

for (const distribution of ['trixie', 'noble'])
  test(`the archive gives ${distribution} without a network its first sandbox`, async () => {
    const machine = await bareMachine(distribution)
    copyTo(machine, release.archive)
    process.stdout.write(`${machine.run('. /etc/os-release; echo $PRETTY_NAME').stdout.trim()}:\n`)
    step(
      machine,
      'unpack',
      `tar -xzf /root/${basename(release.archive)} -C /opt && mv /opt/warren-* /opt/warren`,
    )
    const measured = measure(machine)
    step(machine, 'start until it serves', startScript('/opt/warren/bin/warren'))
    const said = step(machine, 'create a sandbox and run a command', '/opt/warren/bin/warren run -- whoami')
    measured('first sandbox')
    assert.equal(said, 'user\n')
    await machine.end()
    machines.splice(machines.indexOf(machine), 1)
  })

test('the Debian package gives a first sandbox without a network, and keeps data unless a purge may remove it', async () => {
  const machine = await bareMachine('bookworm', dependencies)
  const deb = release.package!
  copyTo(machine, deb)
  process.stdout.write(`The Debian package, ${size(deb)}:\n`)
  const install = `DEBIAN_FRONTEND=noninteractive dpkg -i /root/${basename(deb)}`
  step(machine, 'install', install)
  const measured = measure(machine)
  step(machine, 'start until it serves', startScript('warren'))
  assert.match(
    step(machine, 'create a sandbox and run a command', `warren run -- sh -c 'whoami; dmesg'`),
    /^user\n.*gVisor/s,
  )
  measured('first sandbox')
  assert.equal(machine.run('stat -c %a /etc/warren/warren.env').stdout.trim(), '600')
  assert.match(
    machine.run('cat /usr/lib/systemd/system/warren.service').stdout,
    /^ExecStart=\/usr\/lib\/warren\/bin\/warren start$/m,
  )
  assert.match(machine.run('warren upgrade /root/x').stderr, /apt install \.\/warren_/)

  const id = step(machine, 'create', 'warren sandbox create --timeout 3600').trim()
  step(machine, 'stop', stopScript)
  const purge = 'DEBIAN_FRONTEND=noninteractive dpkg --purge warren'
  const purged = machine.run(purge)
  assert.equal(purged.status, 0, purged.stderr)
  assert.match(purged.stderr, /The data of Warren stays in \/var\/lib\/warren/)
  assert.ok(existsSync(join(machine.root, data, 'warren.db')))
  assert.ok(!existsSync(join(machine.root, 'usr/lib/warren')), 'the programs are left')
  step(machine, 'install again', install)
  step(machine, 'start again', startScript('warren'))
  assert.match(step(machine, 'list', 'warren sandbox list'), new RegExp(id))
  step(machine, 'stop again', stopScript)
  machine.run("echo 'warren warren/remove-data boolean true' | debconf-set-selections")
  step(machine, 'purge with the data', purge)
  assert.ok(!existsSync(join(machine.root, data)), 'the data is left')
  assert.equal(
    machine
      .run('ls /proc | grep -E "^[0-9]+$" | xargs -I{} cat /proc/{}/comm 2>/dev/null | grep -c runsc || true')
      .stdout.trim(),
    '0',
  )
})
