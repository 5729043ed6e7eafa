import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { envelope, type Frame, type Json, token, useAgent } from '../agent-suite.ts'

const agent = useAgent()
const base = mkdtempSync('/var/tmp/warren-watch-')
after(() => rmSync(base, { recursive: true, force: true }))
let folders = 0
let marks = 0
const newFolder = () => {
  const folder = join(base, `w${folders++}`)
  mkdirSync(folder)
  return folder
}
const call = (method: string, message: Json, headers = {}) =>
  agent.unary(`filesystem.Filesystem/${method}`, message, headers)

type Watched = { folder: string; reported: () => Promise<string[]>; stream: AsyncGenerator<Frame> }

/** Watches a folder; `reported` reads events up to and including a mark that it makes itself. */
async function watch(folder: string, options: Json = {}): Promise<Watched> {
  const stream = agent.stream('filesystem.Filesystem/WatchDir', { path: folder, ...options })
  assert.deepEqual((await stream.next()).value.message, { start: {} })
  const reported = async () => {
    const mark = `mark${marks++}`
    mkdirSync(join(folder, mark))
    const seen: string[] = []
    for (;;) {
      const { message } = (await stream.next()).value as Frame
      const { name, type } = message.filesystem as { name: string; type: string }
      if (name === mark) return seen
      if (!name.startsWith('mark')) seen.push(`${type.replace('EVENT_TYPE_', '')} ${name}`)
    }
  }
  return { folder, reported, stream }
}

const upload = (path: string, body: string | Buffer) =>
  agent.fetch(
    'POST',
    `/files?path=${encodeURIComponent(path)}`,
    { 'content-type': 'application/octet-stream' },
    body,
  )

suite('a watcher', () => {
  test('reports each change in its folder by its kind', async () => {
    const { folder, reported, stream } = await watch(newFolder())
    const file = join(folder, 'file')
    writeFileSync(file, 'x')
    assert.deepEqual(await reported(), ['CREATE file', 'WRITE file'])
    appendFileSync(file, 'y')
    assert.deepEqual(await reported(), ['WRITE file'])
    chmodSync(file, 0o600)
    assert.deepEqual(await reported(), ['CHMOD file'])
    renameSync(file, join(folder, 'other'))
    assert.deepEqual(await reported(), ['RENAME file', 'CREATE other'])
    unlinkSync(join(folder, 'other'))
    assert.deepEqual(await reported(), ['REMOVE other'])
    await stream.return(undefined)
  })

  test('reports changes below its folder only if asked to', async () => {
    const folder = newFolder()
    mkdirSync(join(folder, 'deep/er'), { recursive: true })
    const flat = await watch(folder)
    writeFileSync(join(folder, 'deep/file'), 'x')
    assert.deepEqual(await flat.reported(), [])
    await flat.stream.return(undefined)
    const deep = await watch(folder, { recursive: true })
    writeFileSync(join(folder, 'deep/er/file'), 'x')
    assert.deepEqual(await deep.reported(), ['CREATE deep/er/file', 'WRITE deep/er/file'])
    await deep.stream.return(undefined)
  })

  test('misses nothing in folders that are filled as soon as they appear', async () => {
    const { folder, reported, stream } = await watch(newFolder(), { recursive: true })
    const script = 'for a in 0 1 2 3 4 5 6 7 8 9; do mkdir -p $a/b/c; echo x > $a/b/c/f; echo y > $a/g; done'
    execFileSync('sh', ['-c', script], { cwd: folder })
    const seen = await reported()
    for (let a = 0; a < 10; a++) {
      for (const name of [`${a}`, `${a}/b`, `${a}/b/c`, `${a}/b/c/f`, `${a}/g`]) {
        assert.equal(seen.filter((event) => event === `CREATE ${name}`).length, 1, name)
      }
      for (const name of [`${a}/b/c/f`, `${a}/g`]) assert.ok(seen.includes(`WRITE ${name}`), name)
    }
    writeFileSync(join(folder, '3/b/c/f'), 'again')
    assert.deepEqual([...new Set(await reported())], ['WRITE 3/b/c/f'])
    await stream.return(undefined)
  })

  test('follows a renamed folder, forgets one that leaves, and finds one that arrives', async () => {
    const outside = newFolder()
    const { folder, reported, stream } = await watch(newFolder(), { recursive: true })
    mkdirSync(join(folder, 'a/b'), { recursive: true })
    assert.deepEqual(await reported(), ['CREATE a', 'CREATE a/b'])
    renameSync(join(folder, 'a'), join(folder, 'z'))
    writeFileSync(join(folder, 'z/b/f'), '')
    assert.deepEqual(await reported(), ['RENAME a', 'CREATE z', 'CREATE z/b/f'])
    renameSync(join(folder, 'z'), join(outside, 'z'))
    writeFileSync(join(outside, 'z/b/unseen'), '')
    assert.deepEqual(await reported(), ['RENAME z'])
    renameSync(join(outside, 'z'), join(folder, 'y'))
    assert.deepEqual((await reported()).sort(), [
      'CREATE y',
      'CREATE y/b',
      'CREATE y/b/f',
      'CREATE y/b/unseen',
    ])
    unlinkSync(join(folder, 'y/b/f'))
    assert.deepEqual(await reported(), ['REMOVE y/b/f'])
    await stream.return(undefined)
  })

  test('distinguishes a folder from the one that took its name', async () => {
    const { folder, reported, stream } = await watch(newFolder(), { recursive: true })
    execFileSync('sh', ['-c', 'mkdir a; mv a b; mkdir a; mv a c; mkdir a'], { cwd: folder })
    await reported()
    for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, name, 'f'), '')
    assert.deepEqual(await reported(), ['CREATE a/f', 'CREATE b/f', 'CREATE c/f'])
    await stream.return(undefined)
  })

  test('reports an upload as a write, and never its temporary name', async () => {
    const { folder, reported, stream } = await watch(newFolder(), { recursive: true })
    await upload(join(folder, 'file'), 'one')
    assert.deepEqual(await reported(), ['CREATE file', 'CHMOD file', 'WRITE file'])
    await upload(join(folder, 'file'), 'two')
    assert.deepEqual(await reported(), ['WRITE file'])
    execFileSync('ln', [join(folder, 'file'), join(folder, 'second')])
    assert.deepEqual(await reported(), ['CREATE second'])
    await upload(join(folder, 'second'), 'three')
    assert.deepEqual([...new Set(await reported())], ['WRITE second'])
    await upload(join(folder, 'new/deep/file'), 'x')
    const deep = await reported()
    assert.deepEqual(
      // A file that was there before the watch of its folder stood has no CHMOD.
      deep.filter((event) => /^(CREATE|WRITE).*file$/.test(event)),
      ['CREATE new/deep/file', 'WRITE new/deep/file'],
    )
    assert.ok(deep.every((event) => !event.includes('warren')))
    await stream.return(undefined)
  })

  test('reports nothing of a failed upload', async () => {
    const { folder, reported, stream } = await watch(newFolder())
    const response = await agent.fetch(
      'POST',
      `/files?path=${encodeURIComponent(join(folder, 'file'))}`,
      { 'content-type': 'application/octet-stream', 'content-encoding': 'gzip' },
      'no gzip',
    )
    assert.equal(response.status, 400)
    assert.deepEqual(await reported(), [])
    await stream.return(undefined)
  })

  test('reports an arrival from another file system once, under its final name', async () => {
    const elsewhere = newFolder()
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', elsewhere])
    try {
      mkdirSync(join(elsewhere, 'tree'))
      writeFileSync(join(elsewhere, 'tree/file'), 'x')
      const { folder, reported, stream } = await watch(newFolder(), { recursive: true })
      await call('Move', { source: join(elsewhere, 'tree'), destination: join(folder, 'here') })
      assert.deepEqual(await reported(), ['CREATE here', 'CREATE here/file', 'WRITE here/file'])
      await stream.return(undefined)
    } finally {
      execFileSync('umount', [elsewhere])
    }
  })

  test('includes the entry if asked to, and if the file exists', async () => {
    const folder = newFolder()
    const { stream } = await watch(folder, { includeEntry: true })
    await agent.fetch(
      'POST',
      `/files?path=${encodeURIComponent(join(folder, 'file'))}`,
      { 'content-type': 'application/octet-stream', 'x-metadata-a': '1' },
      'text',
    )
    const { filesystem } = (await stream.next()).value.message as { filesystem: Json }
    const entry = filesystem.entry as Json
    assert.deepEqual(
      [filesystem.name, entry.path, entry.size, entry.metadata],
      ['file', join(folder, 'file'), '4', { a: '1' }],
    )
    for (const more of ['CHMOD', 'WRITE']) {
      const { type } = (await stream.next()).value.message.filesystem as Json
      assert.equal(type, `EVENT_TYPE_${more}`)
    }
    unlinkSync(join(folder, 'file'))
    const gone = (await stream.next()).value.message.filesystem as Json
    assert.deepEqual(gone, { name: 'file', type: 'EVENT_TYPE_REMOVE' })
    await stream.return(undefined)
  })

  test('ends with the folder that it watches', async () => {
    const folder = newFolder()
    const { stream } = await watch(folder)
    rmdirSync(folder)
    const { message } = (await stream.next()).value as Frame
    assert.deepEqual(message.filesystem, { name: '.', type: 'EVENT_TYPE_REMOVE' })
    assert.deepEqual((await stream.next()).value, { flags: 2, message: {} })
  })

  test('does not walk through links, except through the one it is given', async () => {
    const real = newFolder()
    const folder = newFolder()
    symlinkSync(real, join(folder, 'link'))
    const { reported, stream } = await watch(folder, { recursive: true })
    writeFileSync(join(real, 'f'), '')
    assert.deepEqual(await reported(), [])
    await stream.return(undefined)
    const through = await watch(join(folder, 'link'))
    writeFileSync(join(real, 'g'), '')
    assert.deepEqual(await through.reported(), ['CREATE g'])
    await through.stream.return(undefined)
  })

  test('is rejected for a missing path or a file', async () => {
    const file = join(newFolder(), 'file')
    writeFileSync(file, '')
    for (const [path, code] of [
      [file, 'invalid_argument'],
      [`${file}-none`, 'not_found'],
    ]) {
      assert.equal((await call('CreateWatcher', { path })).json.code, code)
      const [frame] = [(await agent.stream('filesystem.Filesystem/WatchDir', { path }).next()).value as Frame]
      assert.equal((frame.message.error as Json).code, code)
    }
  })

  test('sends keep-alives as often as asked, and ends at its deadline', async () => {
    const stream = agent.stream(
      'filesystem.Filesystem/WatchDir',
      { path: newFolder() },
      { 'keepalive-ping-interval': '1', 'connect-timeout-ms': '1500' },
    )
    await stream.next()
    assert.deepEqual((await stream.next()).value.message, { keepalive: {} })
    const end = (await stream.next()).value as Frame
    assert.equal((end.message.error as Json).code, 'deadline_exceeded')
  })

  test('leaves nothing behind when its client goes', async () => {
    const before = inotifyDescriptors()
    const response = await agent.open(
      'POST',
      '/filesystem.Filesystem/WatchDir',
      { 'content-type': 'application/connect+json', 'x-access-token': token },
      envelope({ path: base }),
    )
    await new Promise((resolve) => response.once('data', resolve))
    assert.ok(inotifyDescriptors() > 0)
    response.destroy()
    while (inotifyDescriptors() > before) await new Promise((resolve) => setImmediate(resolve))
  })
})

suite('a polled watcher', () => {
  const eventsOf = async (watcherId: string) => {
    const { json } = await call('GetWatcherEvents', { watcherId })
    return ((json.events ?? []) as Json[]).map((event) => `${event.type} ${event.name}`)
  }
  const eventually = async (watcherId: string, last: string) => {
    const seen: string[] = []
    while (!seen.includes(last)) seen.push(...(await eventsOf(watcherId)))
    return seen
  }

  test('returns the changes since the last call', async () => {
    const folder = newFolder()
    const { json } = await call('CreateWatcher', { path: folder, recursive: true })
    const id = String(json.watcherId)
    assert.match(id, /^w.+/)
    mkdirSync(join(folder, 'sub'))
    writeFileSync(join(folder, 'sub/file'), 'x')
    await eventually(id, 'EVENT_TYPE_WRITE sub/file')
    assert.deepEqual(await eventsOf(id), [])
    writeFileSync(join(folder, 'sub/file'), 'xx')
    await eventually(id, 'EVENT_TYPE_WRITE sub/file')
    assert.equal((await call('RemoveWatcher', { watcherId: id })).status, 200)
    assert.equal((await call('GetWatcherEvents', { watcherId: id })).status, 404)
    assert.equal((await call('RemoveWatcher', { watcherId: id })).status, 404)
  })

  test('fails, instead of losing changes, if nobody polls it for too long; the number of watchers is limited', async () => {
    const folder = newFolder()
    const id = String((await call('CreateWatcher', { path: folder })).json.watcherId)
    // Nobody reads while we do this, not even the agent, which lives in this same process.
    for (let i = 0; i < 20_000; i++) mkdirSync(join(folder, String(i)))
    let answer = await call('GetWatcherEvents', { watcherId: id })
    while (answer.status === 200) answer = await call('GetWatcherEvents', { watcherId: id })
    assert.deepEqual([answer.status, answer.json.code], [429, 'resource_exhausted'])
    await call('RemoveWatcher', { watcherId: id })
    const ids: string[] = []
    for (;;) {
      const made = await call('CreateWatcher', { path: folder })
      if (made.status !== 200) {
        assert.equal(made.json.code, 'resource_exhausted')
        break
      }
      ids.push(String(made.json.watcherId))
    }
    for (const watcherId of ids) await call('RemoveWatcher', { watcherId })
    assert.equal(ids.length, 64)
  })
})

function inotifyDescriptors(): number {
  const found = execFileSync('sh', ['-c', `ls -l /proc/${process.pid}/fd | grep -c inotify || true`])
  return Number(found.toString())
}
