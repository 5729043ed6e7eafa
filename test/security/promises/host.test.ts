/** What other users of the machine can do to Warren and its sandboxes: nothing, but use its port. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, lstatSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Volume } from 'e2b'
import { instanceOf } from '../../../src/drivers/host/record/layout.ts'
import { asOrdinaryUser } from '../../support/ordinary-user.ts'
import { names, run } from '../../support/traces.ts'
import { isolations, startWarren, type Warren } from '../../support/warren.ts'

const secret = 'what-only-this-sandbox-knows'

for (const isolation of isolations) {
  describe(`other users of the machine, ${isolation}`, () => {
    let warren: Warren
    let sandbox: Sandbox
    let volume: Volume
    let runFolder: string
    before(async () => {
      warren = await startWarren(isolation, { settings: { WARREN_WARM_MEMORY_MB: '2048' } })
      runFolder = `/run/warren-${instanceOf(warren.dataFolder)}`
      volume = await Volume.create('others', warren.client)
      sandbox = await Sandbox.create('base', {
        ...warren.client,
        timeoutMs: 3_600_000,
        volumeMounts: { '/mnt/data': volume },
        envs: { SECRET: secret },
      })
      await sandbox.files.write('/home/user/secret', secret)
      await sandbox.files.write('/mnt/data/secret', secret)
      await sandbox.commands.run('cp /bin/id /opt/id; chmod 4755 /opt/id; sync', { user: 'root' })
      await sandbox.commands.run('python3 -m http.server 8000', { background: true, timeoutMs: 0 })
      const other = await Sandbox.create('base', warren.client)
      await other.files.write('/home/user/secret', secret)
      if (isolation === 'gvisor') await other.pause()
    })
    after(async () => {
      await warren?.stop()
    })

    it('cannot read, change or run a file of the data folder', () => {
      const paths = everythingIn(warren.dataFolder)
      const programs = withOwnersRights(warren.dataFolder)
      assert.ok(paths.some((path) => path.endsWith('disk.ext4')) && programs.length > 5)
      const { read, written, run } = asOrdinaryUser({ paths, programs })
      assert.deepEqual({ read, written, run }, { read: [], written: [], run: [] })
    })

    it('can go through no folder or mount of /run but empty mount points', () => {
      const paths = everythingIn(runFolder)
      const { read, written } = asOrdinaryUser({ paths })
      assert.deepEqual(written, [])
      const shown = read.filter((path) => !statSync(path).isDirectory() || readdirSync(path).length > 0)
      const hasOnlyMountPoints = (path: string) =>
        readdirSync(path).every((name) => readdirSync(join(path, name)).length === 0)
      assert.deepEqual(
        shown.filter((path) => !path.endsWith('/shared') || !hasOnlyMountPoints(path)),
        [],
      )
      const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
        .split('\n')
        .map((line) => line.split(' ')[4]!)
      const ours = mounts.filter((path) => path?.includes(instanceOf(warren.dataFolder)))
      assert.ok(ours.length > 3)
      assert.deepEqual(asOrdinaryUser({ paths: ours }).read, [])
      for (const network of ours.filter((path) => path.startsWith('/run/netns/')))
        assert.throws(() => asNobody('nsenter', `--net=${network}`, 'true'), /not permitted/)
    })

    it('see no secret in any process, and enter or end none', () => {
      const pids = processesOf(warren)
      assert.ok(pids.includes(warren.pid) && pids.length > 3)
      const { shown, signalled } = asOrdinaryUser({ pids })
      assert.deepEqual(signalled, [])
      const closed = /\/(environ|maps|mem|auxv|syscall|stack|io|numa_maps|root|cwd|fd|map_files|fdinfo)$/
      const open = Object.entries(shown).filter(([path, text]) => closed.test(path) && text !== '')
      assert.deepEqual(open, [])
      const { seed } = JSON.parse(readFileSync(join(warren.dataFolder, 'secrets.json'), 'utf8'))
      // Where it prints is no terminal, and others may read it.
      assert.ok(!readFileSync(warren.logFile, 'utf8').includes(warren.apiKey))
      for (const text of [secret, warren.apiKey, warren.adminToken, seed]) {
        const leaking = Object.entries(shown).filter(([, content]) => content.includes(text))
        assert.deepEqual(
          leaking.map(([path]) => path),
          [],
        )
      }
    })

    it('reach no socket but the one port, neither of Warren nor of its sandboxes', async () => {
      const address = (await sandbox.commands.run('hostname -I')).stdout.trim()
      const inside = [`${address}:49983`, `${address}:8000`]
      const door = `127.0.0.1:${new URL(warren.url).port}`
      const all = [...socketsOf(warren), ...inside]
      assert.ok(
        all.includes(door) &&
          all.some((name) => name.startsWith('/') || name.startsWith('@')) === (isolation === 'gvisor'),
        `${all}`,
      )
      // Root can: these are the addresses.
      for (const each of inside)
        assert.equal(run('bash', '-c', `exec 3<>/dev/tcp/${each.replace(':', '/')} && echo open`), 'open\n')
      assert.deepEqual(asOrdinaryUser({ sockets: all }).connected, [door])
    })

    it('open no loop device of its disks, and change no group of its processes', () => {
      const listed = run('losetup', '--list', '--noheadings', '--output', 'NAME,BACK-FILE')
      const devices = listed
        .split('\n')
        .filter((line) => line.includes(warren.dataFolder))
        .map((line) => line.split(/\s+/)[0]!)
      assert.ok(devices.length > 0, listed)
      assert.deepEqual(asOrdinaryUser({ paths: devices }).read, [])
      const groups = run(
        'find',
        '/sys/fs/cgroup',
        '-path',
        `*warren-${instanceOf(warren.dataFolder)}*`,
        '-type',
        'f',
      ).split('\n')
      assert.ok(groups.length > 10)
      assert.deepEqual(asOrdinaryUser({ paths: groups }).written, [])
    })

    it('find closed what an earlier release left open, and its sandboxes live on', async () => {
      for (const path of [
        warren.dataFolder,
        join(warren.dataFolder, 'sandboxes'),
        join(warren.dataFolder, 'disks'),
        runFolder,
      ])
        chmodSync(path, 0o755)
      for (const name of ['state', 'mnt', 'shown', 'agent', 'disk', 'layer'])
        if (names(runFolder).includes(name)) chmodSync(join(runFolder, name), 0o755)
      for (const name of names(join(warren.dataFolder, 'sandboxes')))
        chmodSync(join(warren.dataFolder, 'sandboxes', name), 0o755)
      const left = everythingIn(warren.dataFolder)
      assert.ok(asOrdinaryUser({ paths: left }).read.some((path) => path.endsWith('disk.ext4')))
      await warren.crash()
      warren = await startWarren(isolation, { keepData: true, settings: { WARREN_WARM_MEMORY_MB: '2048' } })
      assert.equal(await sandbox.files.read('/home/user/secret'), secret)
      assert.deepEqual(asOrdinaryUser({ paths: left }).read, [])
      const folders = names(runFolder).map((name) => join(runFolder, name))
      const open = asOrdinaryUser({ paths: folders }).read.map((path) => path.slice(runFolder.length + 1))
      assert.deepEqual(
        open.filter((name) => names(join(runFolder, name)).length > 0 && name !== 'shared'),
        [],
      )
      assert.equal((await sandbox.commands.run('sudo cat /mnt/data/secret')).stdout, secret)
    })
  })
}

/** All paths of a folder; of roots, layers and programs only the upper ones, which lead to all others. */
function everythingIn(folder: string): string[] {
  const found = run('find', folder, '-not', '-path', '*/root/*')
  const linked = names(folder)
    .map((name) => join(folder, name))
    .filter((path) => lstatSync(path).isSymbolicLink())
  const behind = linked.flatMap((path) => run('find', `${path}/`, '-maxdepth', '3').split('\n'))
  return [...found.split('\n'), ...behind].filter((path) => path !== '')
}

/** Programs that run with the rights of their owners, in templates. */
function withOwnersRights(dataFolder: string): string[] {
  return run('find', `${join(dataFolder, 'templates')}/`, '-perm', '-4000', '-type', 'f')
    .split('\n')
    .filter((path) => path !== '')
}

/** The server, and everything in groups and folders of its sandboxes. */
function processesOf({ dataFolder, pid }: Warren): number[] {
  const instance = `warren-${instanceOf(dataFolder)}`
  const isOurs = (name: string) => {
    const about = (file: string) => run('cat', `/proc/${name}/${file}`)
    return about('cgroup').includes(instance) || about('cmdline').includes(`${dataFolder}/`)
  }
  return [
    pid,
    ...names('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== pid && isOurs(name))
      .map(Number),
  ]
}

/** Sockets on which the server listens, and all with a name that belong to its sandboxes. */
function socketsOf(warren: Warren): string[] {
  const { dataFolder, pid } = warren
  const inet = run('ss', '-Hltunp')
    .split('\n')
    .filter((line) => line.includes(`pid=${pid},`))
  const pids = processesOf(warren)
  const owned = new Set(
    pids.flatMap((each) => names(`/proc/${each}/fd`).map((fd) => linkOf(`/proc/${each}/fd/${fd}`))),
  )
  const rows = readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  const instance = instanceOf(dataFolder)
  const local = rows.flatMap(([, , , , , , inode, name]) =>
    name !== undefined &&
    (owned.has(`socket:[${inode}]`) || name.includes(dataFolder) || name.includes(instance))
      ? [name]
      : [],
  )
  return [...inet.map((line) => line.trim().split(/\s+/)[4]!), ...new Set(local)]
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

function asNobody(...words: string[]): string {
  const rights = ['--reuid=65534', '--regid=65534', '--clear-groups']
  return execFileSync('setpriv', [...rights, ...words], { encoding: 'utf8', stdio: 'pipe', cwd: '/' })
}
