/** What strangers, a clumsy client and a user inside try against the agent, through the edge, on both runtimes. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { attackAgents, filesPath, type Target } from '../support/agent-target.ts'
import { isolations, joinWarren } from '../support/warren.ts'

for (const isolation of isolations) {
  attackAgents(
    `the agent, attacked, ${isolation}`,
    () => joinWarren(isolation),
    (mine, theirs) => {
      accessTests(mine, theirs)
      // This comes before the huge tree is made, because it would read all of it.
      secretTests(mine)
      boundTests(mine, theirs)
      if (isolation === 'container') countTests(mine)
    },
  )
}

function signed(
  token: string,
  parts: { path: string; operation: string; user: string; expiration?: string },
) {
  const { path, operation, user, expiration } = parts
  const text = [path, operation, user, token, ...(expiration === undefined ? [] : [expiration])].join(':')
  const signature = `v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`
  const more: Record<string, string> = expiration === undefined ? {} : { signature_expiration: expiration }
  return filesPath(path, { username: user, signature, ...more })
}

function accessTests(mine: () => Target, theirs: () => Target): void {
  describe('a client without permission (C1)', () => {
    const guarded: [string, string][] = [
      ['GET', '/envs'],
      ['GET', '/metrics'],
      ['GET', filesPath('/etc/passwd')],
      ['HEAD', filesPath('/etc/passwd')],
      ['POST', filesPath('/tmp/x')],
      ['POST', '/files/compose'],
      ['POST', '/process.Process/List'],
      ['POST', '/process.Process/Start'],
      ['POST', '/filesystem.Filesystem/Stat'],
      ['POST', '/filesystem.Filesystem/WatchDir'],
      ['GET', '/no/such/path'],
    ]

    it('gets nothing without a token, with a wrong one, or with that of another sandbox', async () => {
      const tokens = [undefined, '', 'wrong', theirs().token, `${mine().token}x`, mine().token.slice(1)]
      for (const [method, path] of guarded) {
        for (const token of tokens) {
          const headers: Record<string, string> = token === undefined ? {} : { 'x-access-token': token }
          const { status } = await mine().ask(method, path, headers)
          assert.equal(status, 401, `${method} ${path} with ${token}`)
        }
      }
    })

    it('gets nothing by a signature that is altered, expired, or for something else', async () => {
      const path = '/etc/hostname'
      const now = Math.floor(Date.now() / 1000)
      const good = { path, operation: 'read', user: 'user', expiration: String(now + 600) }
      const ask = (url: string, method = 'GET') => mine().ask(method, url)
      assert.equal((await ask(signed(mine().token, good))).status, 200)
      const bad = [
        signed(theirs().token, good),
        signed('', good),
        signed(mine().token, { ...good, operation: 'write' }),
        signed(mine().token, { ...good, expiration: String(now - 1) }),
        signed(mine().token, { ...good, expiration: 'never' }),
        signed(mine().token, good).replace('hostname', 'passwd'),
        signed(mine().token, good).replace('username=user', 'username=root'),
        signed(mine().token, good).replace(good.expiration, String(now + 6000)),
        signed(mine().token, good).replace(/&signature_expiration=\d+/, ''),
        signed(mine().token, good).replace('v1_', 'v2_'),
        signed(mine().token, good).replace(/signature=v1_./, 'signature=v1_'),
      ]
      for (const url of bad) assert.equal((await ask(url)).status, 401, url)
      assert.equal((await ask(signed(mine().token, good), 'POST')).status, 401, 'to read is not to write')
      const otherPath = signed(mine().token, good).replace('/files?', '/files/compose?')
      assert.equal((await ask(otherPath, 'POST')).status, 401)
    })

    it('cannot reach paths for the control plane only', async () => {
      for (const path of ['/init', '/INIT', '/%69nit', '//init', '/relay?port=1', '/freeze', '/upgrade'])
        assert.equal((await mine().ask('POST', path, { 'x-access-token': mine().token })).status, 404, path)
    })
  })
}

function boundTests(mine: () => Target, theirs: () => Target): void {
  describe('endless operations (C4)', () => {
    it('a watcher sees nothing of another sandbox', async () => {
      const { text } = await mine().call('CreateWatcher', { path: '/tmp', recursive: true })
      const { watcherId } = JSON.parse(text)
      await theirs().write('/tmp/theirs', 'x')
      await mine().write('/tmp/mine', 'x')
      let seen = ''
      while (!seen.includes('mine')) seen += (await mine().call('GetWatcherEvents', { watcherId })).text
      assert.ok(!seen.includes('theirs'))
      assert.equal((await theirs().call('GetWatcherEvents', { watcherId })).status, 404)
      assert.equal((await mine().call('RemoveWatcher', { watcherId })).status, 200)
    })

    it('a listing of any depth ends, even with loops of links', async () => {
      await mine().shell(
        'mkdir -p /tmp/loops/a/b && ln -s /tmp/loops /tmp/loops/a/b/up && ln -s . /tmp/loops/here',
      )
      const { text } = await mine().call('ListDir', { path: '/tmp/loops', depth: 4_294_967_295 })
      const names = JSON.parse(text).entries.map((entry: { path: string }) => entry.path)
      assert.deepEqual(names, ['/tmp/loops/a', '/tmp/loops/a/b', '/tmp/loops/a/b/up', '/tmp/loops/here'])
      const everything = await mine().call('ListDir', { path: '/proc', depth: 4_294_967_295 })
      assert.ok([200, 429].includes(everything.status), everything.text)
    })
  })
}

/** What the agent counts by itself, so that the runtime has no part in it. */
function countTests(mine: () => Target): void {
  describe('operations on too many files (C4)', () => {
    it('a tree too large to watch is rejected with the remedy, and costs nothing afterwards', async () => {
      const make = 'import os\nfor a in range(240):\n  for b in range(220): os.makedirs(f"/tmp/huge/{a}/{b}")'
      await mine().sandbox.files.write('/tmp/make.py', make)
      await mine().shell('python3 /tmp/make.py')
      const { status, text } = await mine().call('CreateWatcher', { path: '/tmp/huge', recursive: true })
      assert.equal(status, 429)
      assert.match(text, /resource_exhausted.*(watch a part of it|watch a smaller directory)/)
      const flat = await mine().call('CreateWatcher', { path: '/tmp/huge' })
      assert.equal(flat.status, 200)
      await mine().call('RemoveWatcher', JSON.parse(flat.text))
    })
  })
}

function secretTests(mine: () => Target): void {
  describe('secrets inside a sandbox (C6)', () => {
    it('the token is in no environment, argument or file that a user inside can read', async () => {
      const look = (pattern: string) =>
        `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /run/e2b/.* /proc/self/mountinfo 2>/dev/null | tr '\\0' '\\n' | grep -c ${pattern} || true`
      for (const user of ['user', 'root'] as const) {
        // In brackets, so that the command itself does not hold what it looks for.
        const pattern = `[${mine().token[0]}]${mine().token.slice(1)}`
        assert.equal(await mine().shell(look(pattern), user), '0', user)
        assert.notEqual(await mine().shell(look('[P]ATH='), user), '0')
      }
      const files = await mine().shell(
        `grep -rslF "${mine().token.slice(0, 20)}" /home /tmp /run /etc /var /root /dev/shm 2>/dev/null || true`,
        'root',
      )
      assert.equal(files, '')
    })

    it('a user cannot read another user’s environment and memory', async () => {
      const command = 'export HIDDEN=only-for-root; exec sleep 300'
      const other = await mine().sandbox.commands.run(command, {
        background: true,
        user: 'root',
        timeoutMs: 0,
      })
      const read = (file: string) => mine().shell(`cat /proc/${other.pid}/${file} 2>&1 || true`)
      assert.match(await read('environ'), /denied|not permitted/i)
      assert.match(await read('mem'), /denied|not permitted|error/i)
      await other.kill()
    })

    it('a user cannot read the agent’s memory', async () => {
      const opened =
        'for p in /proc/[0-9]*; do grep -qs boot.cj[s] $p/cmdline && cat $p/mem $p/environ; done 2>&1 | head -c 300'
      assert.match(await mine().shell(`${opened} || true`), /denied|not permitted|error/i)
    })
  })
}
