import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { upgradeCommand } from '../../cli/upgrade.ts'
import { givenSettings, inheritedSockets } from '../config/config.ts'
import {
  environmentLines,
  settingsIn,
  systemdCommand,
  systemdSocket,
  systemdUnit,
  withSettings,
} from './systemd-command.ts'

const alone = { host: '127.0.0.1', port: 3000, peerAddress: null, peerListen: null }

test('systemd opens the ports of the settings, and hands them to this process alone', () => {
  const portsOf = (config: Parameters<typeof systemdSocket>[0]) =>
    systemdSocket(config).match(/^ListenStream=.*$/gm)
  assert.deepEqual(portsOf(alone), ['ListenStream=127.0.0.1:3000'])
  assert.deepEqual(portsOf({ ...alone, host: '::', peerAddress: '10.0.0.1:7443' }), [
    'ListenStream=[::]:3000',
    'ListenStream=0.0.0.0:7443',
  ])
  const named = { peerAddress: '10.0.0.1:7443', peerListen: 'node1.internal:7443' }
  assert.deepEqual(portsOf({ ...alone, ...named }), ['ListenStream=127.0.0.1:3000'])
  const env = { LISTEN_PID: '7', LISTEN_FDS: '2' }
  assert.deepEqual(inheritedSockets(env, 7), { door: 3, peers: 4 })
  assert.deepEqual(inheritedSockets({ ...env, LISTEN_FDS: '1' }, 7), { door: 3, peers: undefined })
  assert.deepEqual(inheritedSockets(env, 8), { door: undefined, peers: undefined })
})

test('the unit starts this Warren and leaves its sandboxes alone when it stops', () => {
  const unit = systemdUnit('/opt/warren')
  for (const line of ['ExecStart=/opt/warren/bin/warren start', 'KillMode=process', 'Delegate=yes']) {
    assert.ok(unit.split('\n').includes(line), line)
  }
})

test('the service comes before sandboxes, as a sibling of their cgroup', () => {
  const lines = systemdUnit('/opt/warren').split('\n')
  assert.ok(lines.includes('Slice=-.slice'))
  assert.ok(lines.includes('CPUWeight=1000'))
})

test('systemd does not restart Warren if the next start would fail in the same way', () => {
  const lines = systemdUnit('/opt/warren').split('\n')
  assert.ok(lines.includes('Restart=always'))
  assert.ok(lines.includes('RestartPreventExitStatus=78'))
})

test('systemd finds nothing wrong with the unit', (t) => {
  if (spawnSync('systemd-analyze', ['--version']).error) return t.skip('there is no systemd-analyze here')
  const folder = mkdtempSync(join(tmpdir(), 'unit-'))
  t.after(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/warren'), '#!/bin/sh\n')
  chmodSync(join(folder, 'bin/warren'), 0o755)
  const files = [join(folder, 'warren.service'), join(folder, 'warren.socket')]
  writeFileSync(files[0]!, systemdUnit(folder))
  writeFileSync(files[1]!, systemdSocket(alone))
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], {
    encoding: 'utf8',
  })
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
})

test('without --install nothing is written, only shown', async () => {
  const shown = await systemdCommand([], '/nowhere/warren', () => assert.fail('a program was run'))
  assert.match(shown, /ExecStart=\/nowhere\/warren\/bin\/warren start/)
  assert.match(shown, /Nothing was changed/)
  await assert.rejects(
    systemdCommand(['now'], '/', () => {}),
    /Unknown argument 'now'/,
  )
})

test('the settings of the service are those of the shell, unchanged', () => {
  const env = {
    WARREN_PORT: ' 3001 ',
    WARREN_HOST: '',
    PATH: '/bin',
    WARREN_DATABASE_URL: 'postgres://u:p@h/d',
  }
  assert.deepEqual(givenSettings(env), { WARREN_PORT: '3001', WARREN_DATABASE_URL: 'postgres://u:p@h/d' })
})

test('a value that systemd would read otherwise is quoted in the file of settings', () => {
  const given = { WARREN_PORT: '3001', WARREN_DATABASE_URL: `postgres://u:a"b\\c$d'e f@h/d?sslmode=require` }
  assert.equal(
    environmentLines(given),
    `WARREN_PORT=3001\nWARREN_DATABASE_URL="postgres://u:a\\"b\\\\c\\$d'e f@h/d?sslmode=require"\n`,
  )
})

test('a second install keeps the settings of the file that the shell does not have', () => {
  const url = `postgres://u:a"b\\c$d'e f@h/d`
  const before = `# ours\n${environmentLines({ WARREN_PORT: '3000', WARREN_DATABASE_URL: url })}HTTPS_PROXY=x\nWARREN_DOMAIN='a.b'\n`
  const after = withSettings(before, { WARREN_PORT: '3001' })
  assert.match(after, /^# ours\n.*^HTTPS_PROXY=x$/ms)
  assert.deepEqual(settingsIn(after), {
    WARREN_DATABASE_URL: url,
    WARREN_DOMAIN: 'a.b',
    WARREN_PORT: '3001',
  })
  assert.equal(withSettings(before, {}), before)
  assert.equal(withSettings('WARREN_PORT=3000', { WARREN_HOST: '::' }), 'WARREN_PORT=3000\nWARREN_HOST=::\n')
  for (const unclear of ['WARREN_PORT=30\\\n00', 'WARREN_PORT="3000', 'WARREN_PORT=3000 # ours'])
    assert.throws(() => settingsIn(unclear), /gives WARREN_PORT in a way/)
})

test('the steps of an upgrade depend on the way Warren was installed, and on its database', async () => {
  const paths = { version: '1.2.3', folder: '/opt/warren', dataFolder: '/var/lib/warren' }
  const upgradeTo = async (archive: string) => `upgraded to ${archive}`
  const parts = { ...paths, hasPostgres: false, isInCluster: false, upgradeTo }
  assert.doesNotMatch(await upgradeCommand([], { ...parts, isClone: true }), /pg_dump/)
  assert.match(await upgradeCommand([], { ...parts, isClone: true, hasPostgres: true }), /pg_dump .*\n3\./)
  for (const steps of [
    await upgradeCommand([], { ...parts, isClone: false, isInCluster: true }),
    await upgradeCommand(['--cluster'], { ...parts, isClone: false }),
  ])
    assert.match(steps, /pg_dump.*load balancer.*systemctl restart warren.*pg_restore/s)
  await assert.rejects(upgradeCommand(['--all'], { ...parts, isClone: false }), /warren upgrade --help/)
  assert.match(await upgradeCommand([], { ...parts, isClone: true }), /cd \/opt\/warren && git pull/)
  assert.match(await upgradeCommand([], { ...parts, isClone: false }), /warren upgrade warren-NEW/)
  const packaged = { ...parts, folder: '/usr/lib/warren', isClone: false }
  assert.match(await upgradeCommand([], packaged), /apt install \.\/warren_NEW\.deb/)
  assert.equal(await upgradeCommand(['a.tar.gz'], { ...parts, isClone: false }), 'upgraded to a.tar.gz')
})
