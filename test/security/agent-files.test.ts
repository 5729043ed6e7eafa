/** Paths and files with which the agent is to be led astray, through the edge, on both runtimes. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { before, describe, it } from 'node:test'
import { delay } from '../../src/lib/clock.ts'
import { attackAgents, type Target } from '../support/agent-target.ts'
import { countOf } from '../support/count-of.ts'
import { isolations, joinWarren } from '../support/warren.ts'

const swaps = countOf({ short: 20, long: 60 })
/** More than an agent may hold at its peak. */
const uploadMiB = countOf({ short: 256, long: 512 })

for (const isolation of isolations) {
  attackAgents(
    `the agent, led astray, ${isolation}`,
    () => joinWarren(isolation),
    (mine) => {
      pathTests(mine)
      raceTests(mine)
    },
  )
}

const odd = [
  '../../../../etc/passwd',
  '/proc/self/root/etc/passwd',
  '/proc/1/root/etc/passwd',
  '/proc/self/cwd',
  '/proc/self/fd/0',
  '/proc/self/mem',
  '/proc/kcore',
  '/dev/mem',
  '/dev/zero',
  '/dev/tty',
  '/sys/kernel',
  '/tmp/odd/fifo',
  '/tmp/odd/socket',
  '/tmp/odd/loop',
  '/tmp/odd/dangling',
  '/tmp/odd/away/passwd',
  '/tmp/odd/hard',
  `/tmp/${'n'.repeat(4096)}`,
  `/${'d/'.repeat(3000)}x`,
  '/tmp/nul\0byte',
  '/tmp/line\nbreak',
  '/tmp/\ud800half',
]

function pathTests(mine: () => Target): void {
  describe('paths of every kind (C2)', () => {
    before(async () => {
      await mine().shell(
        'mkdir /tmp/odd && cd /tmp/odd && mkfifo fifo && ln -s loop loop && ln -s nowhere dangling && ' +
          'ln -s /etc away && echo x > one && ln one hard && ' +
          'python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'socket\')"',
      )
    })

    it('are answered at once, and never with a file of the host', async () => {
      const hostSecret = readFileSync('/etc/machine-id', 'utf8').trim()
      assert.match(hostSecret, /^[0-9a-f]{32}$/)
      for (const path of odd) {
        for (const [what, answer] of [
          ['read', await mine().read(path)],
          ['stat', await mine().call('Stat', { path })],
          ['list', await mine().call('ListDir', { path, depth: 2 })],
          ['watch', await mine().call('CreateWatcher', { path })],
        ] as const) {
          assert.ok(
            [200, 400, 403, 404, 409, 429, 500].includes(answer.status),
            `${what} ${path}: ${answer.status}`,
          )
          assert.ok(!answer.text.includes(hostSecret), `${what} ${path}`)
        }
      }
      const inside = await mine().shell('cat /etc/passwd')
      for (const path of odd.slice(0, 2)) assert.equal((await mine().read(path)).text.trim(), inside)
      // Where the kernel lets nobody look into the first process, this is closed too.
      const { status, text } = await mine().read('/proc/1/root/etc/passwd')
      assert.ok(status === 403 || text.trim() === inside, `${status} ${text}`)
      assert.equal((await mine().read('/tmp/odd/away/passwd')).text.trim(), inside)
    })

    it('cannot be written where no file can be, and the agent keeps working', async () => {
      for (const path of [
        '/tmp/odd/fifo',
        '/tmp/odd/socket',
        '/tmp/odd/loop',
        '/dev/zero',
        '/dev/null',
        '/tmp',
      ])
        assert.equal((await mine().write(path, 'x')).status, 400, path)
      for (const path of ['/proc/sys/kernel/hostname-new', '/.warren/agent.cjs', '/.warren/new', '/sys/new'])
        assert.ok((await mine().write(path, 'x', 'root')).status >= 400, path)
      for (const path of [`/tmp/${'n'.repeat(4096)}`, '/tmp/nul\0byte'])
        assert.equal((await mine().write(path, 'x')).status, 400)
      assert.equal((await mine().ask('GET', '/health')).status, 204)
    })

    it('are moved and removed without following links', async () => {
      await mine().shell(
        'mkdir -p /tmp/keep/in /tmp/gone && touch /tmp/keep/in/file && ln -s /tmp/keep /tmp/gone/link',
      )
      assert.equal(
        (await mine().call('Move', { source: '/tmp/gone/link', destination: '/tmp/gone/moved' })).status,
        200,
      )
      assert.equal(await mine().shell('readlink /tmp/gone/moved'), '/tmp/keep')
      assert.equal((await mine().call('Remove', { path: '/tmp/gone' })).status, 200)
      assert.equal(await mine().shell('ls /tmp/keep/in'), 'file')
      assert.equal((await mine().call('Remove', { path: '/' })).status, 400)
      assert.ok((await mine().call('Remove', { path: '/.warren' })).status >= 400)
      assert.equal((await mine().ask('GET', '/health')).status, 204)
    })

    it('create files that belong to the named user', async () => {
      await mine().write('/tmp/owned/by/user', 'x')
      await mine().write('/tmp/owned/by/root', 'x', 'root')
      const owners = await mine().shell(
        'stat -c %U /tmp/owned /tmp/owned/by /tmp/owned/by/user /tmp/owned/by/root',
      )
      assert.deepEqual(owners.split('\n'), ['user', 'user', 'user', 'root'])
      assert.equal((await mine().write('/tmp/x', 'x', 'no-such-user')).status, 401)
    })

    it('with names that are not UTF-8 can be listed around and removed', async () => {
      await mine().shell(
        `python3 -c "import os; os.mkdir(b'/tmp/raw'); open(b'/tmp/raw/a\\xff', 'w'); open(b'/tmp/raw/b', 'w')"`,
      )
      const { status, text } = await mine().call('ListDir', { path: '/tmp/raw' })
      assert.equal(status, 200)
      assert.ok(JSON.parse(text).entries.some((entry: { name: string }) => entry.name === 'b'))
      assert.equal((await mine().call('Remove', { path: '/tmp/raw' })).status, 200)
      assert.equal((await mine().call('Stat', { path: '/tmp/raw' })).status, 404)
    })
  })
}

function raceTests(mine: () => Target): void {
  describe('files that change during an operation (C3)', () => {
    it('a folder that is swapped for a link during uploads and listings harms nothing else', async () => {
      const script =
        'mkdir -p /tmp/race/real /tmp/race/bait; touch /tmp/race/bait/mark; cd /tmp/race; ' +
        'while true; do mv real held; ln -s /tmp/race/bait real; rm real; mv held real; done'
      const swapping = await mine().sandbox.commands.run(script, { background: true, timeoutMs: 0 })
      try {
        for (let i = 0; i < swaps; i++) {
          const written = await mine().write(`/tmp/race/real/file${i}`, 'x'.repeat(1000))
          assert.ok([200, 400, 404, 409].includes(written.status), written.text)
          const listed = await mine().call('ListDir', { path: '/tmp/race', depth: 5 })
          assert.ok([200, 404].includes(listed.status), listed.text)
        }
      } finally {
        await swapping.kill()
      }
      const left = await mine().shell(
        'find /tmp/race -name ".warren*"; stat -c "%U %a" /tmp /etc /etc/passwd',
      )
      assert.deepEqual(left.split('\n'), ['root 1777', 'root 755', 'root 644'])
    })

    it('an upload that is cut off leaves no file', async () => {
      const headers = { 'x-access-token': mine().token, 'content-type': 'application/octet-stream' }
      await mine().shell('mkdir /tmp/cut')
      const { sandboxId } = mine().sandbox
      const url = new URL(String(await mine().sandbox.uploadUrl('/tmp/cut/file')))
      const outgoing = http.request(url, {
        method: 'POST',
        headers: {
          ...headers,
          'e2b-sandbox-id': sandboxId,
          'e2b-sandbox-port': '49983',
          'content-length': '1000000',
        },
      })
      outgoing.on('error', () => {})
      outgoing.write('half')
      while ((await mine().shell('ls -A /tmp/cut')) === '') await delay(20)
      outgoing.destroy()
      while ((await mine().shell('ls -A /tmp/cut')) !== '') await delay(20)
    })

    it(`an upload of ${uploadMiB} MiB passes through without piling up in the agent`, async () => {
      const size = uploadMiB * 1024 * 1024
      const chunk = Buffer.alloc(1024 * 1024)
      let sent = 0
      const body = new ReadableStream({
        pull(controller) {
          if (sent >= size) return controller.close()
          sent += chunk.length
          controller.enqueue(chunk)
        },
      })
      await mine().sandbox.files.write('/tmp/big', body, { requestTimeoutMs: 600_000 })
      assert.equal(await mine().shell('stat -c %s /tmp/big; rm /tmp/big'), String(size))
      const largest = "awk '/VmHWM|VmRSS/ && $2 > most { most = $2 } END { print most }'"
      const statuses = '$(grep -l boot.cjs /proc/[0-9]*/cmdline | sed s/cmdline/status/)'
      const peak = Number(await mine().shell(`cat ${statuses} 2>/dev/null | ${largest}`, 'root'))
      assert.ok(peak > 1024 && peak < 200 * 1024, `${peak} kB`)
    })
  })
}
