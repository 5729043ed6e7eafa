import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { Accounts } from './accounts.ts'
import { useAgent } from './agent-suite.ts'
import { resolvePath } from './paths.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-etc-'))
after(() => rmSync(folder, { recursive: true, force: true }))
writeFileSync(
  join(folder, 'passwd'),
  'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\n# comment\nbad:line\nplain:x:1001:1001::/:/bin/sh\n',
)
writeFileSync(
  join(folder, 'group'),
  'root:x:0:\nuser:x:1000:user\nextra:x:1500:other,user\nmore:x:1501:user\nnot:x:1502:userx\n',
)

suite('accounts', () => {
  const accounts = new Accounts(folder)

  test('are found by name with their supplementary groups', () => {
    assert.deepEqual(accounts.find('user'), {
      name: 'user',
      uid: 1000,
      gid: 1000,
      home: '/home/user',
      groups: [1500, 1501],
    })
    assert.deepEqual(accounts.find('plain')?.groups, [])
    assert.equal(accounts.find('bad'), undefined)
    assert.equal(accounts.find('nobody-here'), undefined)
  })

  test('a bare number is a user id, known or not', () => {
    assert.equal(accounts.find('1000')?.name, 'user')
    const bare = { name: '4242', uid: 4242, home: '/', groups: [] }
    assert.deepEqual(accounts.find('4242'), { ...bare, gid: 0 })
    assert.deepEqual(accounts.find('4242:7'), { ...bare, gid: 7 })
    assert.deepEqual(accounts.find('1000:1000')?.groups, [])
  })

  test('a group after a colon, by name or number, is the only one', () => {
    const user = { name: 'user', uid: 1000, home: '/home/user', groups: [] }
    assert.deepEqual(accounts.find('user:extra'), { ...user, gid: 1500 })
    assert.deepEqual(accounts.find('1000:1501'), { ...user, gid: 1501 })
    for (const bad of ['user:nothing', 'user:', ':1000', '4242:x', '-1', '1000:-1', '']) {
      assert.equal(accounts.find(bad), undefined, bad)
    }
  })

  test('ids without a name show as numbers', () => {
    assert.equal(accounts.userName(1000), 'user')
    assert.equal(accounts.userName(77), '77')
    assert.equal(accounts.groupName(1500), 'extra')
  })

  test('ids that no process can have mean the user nobody', () => {
    const odd = mkdtempSync(join(folder, 'odd-'))
    writeFileSync(
      join(odd, 'passwd'),
      'a:x:4294967296:0::/:\nb:x:1:x::/:\nc:x:4294967295:1::/:\nd:x:4294967294:1::/:\n',
    )
    const found = new Accounts(odd)
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((name) => found.find(name)?.uid),
      [...Array(3), 4294967294],
    )
  })

  test('a passwd file that is too large, or not a regular file, counts as missing', () => {
    const odd = mkdtempSync(join(folder, 'odd-'))
    const path = join(odd, 'passwd')
    const put: (() => void)[] = [
      () => mkdirSync(path),
      () => symlinkSync('passwd', path),
      () => symlinkSync('/dev/zero', path),
      () => writeFileSync(path, 'user:x:1:1::/:\n') ?? truncateSync(path, 2 ** 32),
      () => void execFileSync('mkfifo', [path]),
    ]
    for (const one of put) {
      one()
      const found = new Accounts(odd)
      assert.equal(found.find('user'), undefined)
      assert.equal(found.find('root')?.uid, 0)
      rmSync(path, { recursive: true })
    }
  })

  test('a user added later is found', () => {
    const later = mkdtempSync(join(tmpdir(), 'warren-etc-'))
    try {
      const fresh = new Accounts(later)
      assert.equal(fresh.find('late'), undefined)
      assert.equal(fresh.find('root')?.uid, 0)
      writeFileSync(join(later, 'passwd'), 'late:x:5:5::/:/bin/sh\n')
      assert.equal(fresh.find('late')?.uid, 5)
    } finally {
      rmSync(later, { recursive: true, force: true })
    }
  })
})

suite('processes of a user with supplementary groups', () => {
  const agent = useAgent(new Accounts(folder))
  const cwd = { process: { cwd: '/' } }

  test('have all of these groups, and keep the pid', async () => {
    const result = await agent.run('id -u; id -G; echo $$', { user: 'user', request: cwd })
    assert.equal(result.stdout, `1000\n1000 1500 1501\n${result.pid}\n`)
    assert.equal(result.stderr, '')
  })

  test('have only their own group if the user has no others', async () => {
    assert.equal((await agent.run('id -G', { user: 'plain', request: cwd })).stdout, '1001\n')
  })

  test('run as the user and group that a number names', async () => {
    const ids = async (user: string) => (await agent.run('id -u; id -G', { user, request: cwd })).stdout
    assert.equal(await ids('1000'), '1000\n1000 1500 1501\n')
    assert.equal(await ids('1000:1000'), '1000\n1000\n')
    assert.equal(await ids('4242'), '4242\n0\n')
    assert.equal(await ids('4242:4343'), '4242\n4343\n')
  })

  test('variables for the loader reach the program and not our helper', async () => {
    const request = { process: { cwd: '/', envs: { LD_PRELOAD: '/no/such.so', A: '1' } } }
    const result = await agent.run('echo $LD_PRELOAD $A $$', { user: 'user', request })
    assert.equal(result.stdout, `/no/such.so 1 ${result.pid}\n`)
  })

  test('a program that is not there is rejected', async () => {
    const { error } = await agent.run('', {
      user: 'user',
      request: { process: { cwd: '/', cmd: 'no-such-program' } },
    })
    assert.equal(error?.code, 'invalid_argument')
  })
})

suite('paths', () => {
  const account = { name: 'u', uid: 1, gid: 1, home: '/home/u', groups: [] }
  const cases: [given: string, wanted: string][] = [
    ['', '/work'],
    ['~', '/home/u'],
    ['~/a', '/home/u/a'],
    ['~other', '/home/u/~other'],
    ['a/../b', '/home/u/b'],
    ['../../../x', '/x'],
    ['/a//b/', '/a/b'],
  ]
  for (const [given, wanted] of cases) {
    test(`'${given}' is ${wanted}`, () => assert.equal(resolvePath(given, account, '/work'), wanted))
  }

  test('an empty path without a default is the home', () => {
    assert.equal(resolvePath('', account, ''), '/home/u')
  })
})
