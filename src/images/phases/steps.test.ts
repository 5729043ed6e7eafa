import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openBuilder, runs, someHash, step } from '../../../test/support/builder.ts'
import type { Inside } from '../../../test/support/fake-agent.ts'
import type { BuildFailure } from '../../core/template/builder.ts'
import { type BuildStep, stepTypes } from '../../core/template/start-request.ts'
import { AppError } from '../../lib/app-error.ts'
import { copy, makeUser, makeWorkdir, readEnvironment } from './scripts.ts'

const ok = { exitCode: 0, status: 'exit status 0' }
const failed = { exitCode: 3, status: 'exit status 3' }

const failsIn =
  (number: string, says: RegExp) =>
  (error: unknown): boolean => {
    assert.equal((error as BuildFailure).step, number)
    const [message, where] = (error as Error).message.split('. This was ')
    assert.match(message!, says)
    assert.ok(where, 'the step is named')
    return true
  }

describe('RUN', () => {
  it('passes the command on unchanged, with the user, folder and variables of the steps before', async () => {
    await using site = await openBuilder()
    const text = 'cat <<EOF\n$HOME\nEOF'
    await site.build({
      steps: [
        step('WORKDIR', ['/app']),
        step('ENV', ['A', '1', 'B', 'two words']),
        step('USER', ['builder']),
        step('RUN', [text]),
        step('RUN', ['whoami', 'root']),
        step('RUN', ['id', '']),
      ],
    })
    const envs = { A: '1', B: 'two words' }
    assert.deepEqual(site.fixture.agent.commands.slice(-3), [
      { command: text, user: 'builder', cwd: '/app', envs },
      { command: 'whoami', user: 'root', cwd: '/app', envs },
      { command: 'id', user: 'builder', cwd: '/app', envs },
    ])
  })

  it('logs its output line by line, and its exit status', async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = async (_, { say }) => {
      say('stdout', 'one\ntwo')
      say('stderr', 'three\n')
      return failed
    }
    const failure = failsIn('1', /^failed to run command 'make': exit status 3$/)
    await assert.rejects(site.build({ steps: runs('make') }), failure)
    await assert.rejects(
      site.build({ steps: runs('make') }),
      / This was step 1 of 1; its last output: 'one' \| 'three' \| 'two'\.$/,
    )
    assert.deepEqual(
      site.lines.slice(-3).map(({ message, step: number, level }) => [message, number, level]),
      [
        ['[builder 1/1] [stdout]: one', '1', 'info'],
        ['[builder 1/1] [stderr]: three', '1', 'info'],
        ['[builder 1/1] [stdout]: two', '1', 'info'],
      ],
    )
  })

  it("reports the agent's message if the command could not be started", async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = async () => {
      throw new AppError('unprocessable', "unauthenticated: invalid username: 'root123'")
    }
    const says =
      /^failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'$/
    const steps = [step('RUN', ['whoami', 'root123'])]
    await assert.rejects(site.build({ steps }), failsIn('1', says))
  })
})

describe('ENV', () => {
  const valuesOf = async (...args: string[][]) => {
    await using site = await openBuilder()
    const steps = args.map((each) => step('ENV', each))
    const { result } = await site.build({ steps })
    return { envVars: result.envVars, ran: site.fixture.agent.commands }
  }

  it('sets pairs, and each value may use the variables set before', async () => {
    const { envVars, ran } = await valuesOf(['A', '1', 'B', '$A-2'], ['A', `\${A}\${B}`, 'C', 'x'])
    assert.deepEqual(envVars, { A: '11-2', B: '1-2', C: 'x' })
    assert.equal(ran.length, 0)
  })

  it('without any pair changes nothing', async () => {
    assert.deepEqual((await valuesOf([])).envVars, {})
  })

  it('reads variables that no step has set from the sandbox, as the current user sees them', async () => {
    await using site = await openBuilder()
    const { agent } = site.fixture
    agent.runs = async (command, { say }) => {
      if (command !== readEnvironment) return ok
      say('stdout', 'Welcome!\n\0PATH=/usr/bin:/b')
      say('stdout', 'in\0HOME=/home/me\0TEXT=a=b\nc\0A=hidden\0')
      say('stderr', 'PATH=wrong\0')
      return ok
    }
    const { result } = await site.build({
      steps: [
        step('ENV', ['A', '1']),
        step('USER', ['me']),
        step('ENV', ['PATH', '/opt:$PATH', 'B', `\${TEXT}$A$NOTHING`]),
        step('WORKDIR', ['$HOME/app']),
      ],
    })
    assert.deepEqual(result.envVars, { A: '1', PATH: '/opt:/usr/bin:/bin', B: 'a=b\nc1' })
    assert.equal(result.defaultWorkdir, '/home/me/app')
    const asked = agent.commands.find(({ command }) => command === readEnvironment)
    assert.deepEqual([asked?.user, asked?.envs], ['me', { A: '1' }])
  })

  it('rejects names without a value and invalid names', async () => {
    for (const args of [['A'], ['', 'x'], ['A=B', 'x'], ['A', '1', 'B']]) {
      await assert.rejects(valuesOf(args), failsIn('1', /names and values come in pairs/))
    }
  })

  it('rejects variables whose expansion is too long, alone or together', async () => {
    const tenfold = Array.from({ length: 12 }, (_, i) => [`A${i + 1}`, `$A${i}`.repeat(10)]).flat()
    const tooLong = /^variables make the text longer than 131072 characters/
    await assert.rejects(valuesOf(['A0', 'xxxxxxxxxx', ...tenfold]), failsIn('1', tooLong))
    const copies = Array.from({ length: 20 }, (_, i) => [`C${i}`, '$B']).flat()
    const inAll = /^failed to set 'C10': all variables together have more than 1048576 characters$/
    await assert.rejects(
      valuesOf(['A', 'x'.repeat(1000)], ['B', '$A'.repeat(94), ...copies]),
      failsIn('2', inAll),
    )
    const again = Array.from({ length: 20 }, () => ['B', '$A'.repeat(94)]).flat()
    assert.equal((await valuesOf(['A', 'x'.repeat(1000), ...again])).envVars.B?.length, 94_000)
  })

  it('sets many pairs as fast as a few', { timeout: 60_000 }, async () => {
    const pairs = Array.from({ length: 40_000 }, (_, i) => [`A${i}`, '1']).flat()
    assert.equal(Object.keys((await valuesOf(pairs)).envVars).length, 40_000)
  })
})

describe('WORKDIR', () => {
  it('is created as root for the current user, relative to the previous one', async () => {
    await using site = await openBuilder()
    const steps = [step('USER', ['me']), step('WORKDIR', ['/srv']), step('WORKDIR', ['../opt/./x'])]
    const { result } = await site.build({ steps })
    assert.equal(result.defaultWorkdir, '/opt/x')
    const [first, second] = site.fixture.agent.commands.filter(({ command }) => command === makeWorkdir)
    assert.deepEqual(first, {
      command: makeWorkdir,
      user: 'root',
      cwd: '/home/user',
      envs: { WARREN_PATH: '/srv', WARREN_OWNER: 'me:' },
    })
    assert.deepEqual([second?.cwd, second?.envs.WARREN_PATH], ['/srv', '/opt/x'])
  })

  it('fails if something else has its path', async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = async () => failed
    const failure = failsIn('1', /^failed to set the work folder '\/a': exit status 3$/)
    await assert.rejects(site.build({ steps: [step('WORKDIR', ['/a'])] }), failure)
    const empty = failsIn('1', /a path is needed/)
    await assert.rejects(site.build({ steps: [step('WORKDIR', [''])] }), empty)
  })
})

describe('USER', () => {
  it('is created if it is missing, with its group, and runs the next steps', async () => {
    await using site = await openBuilder()
    const { result } = await site.build({ steps: [step('ENV', ['N', 'web']), step('USER', ['$N:staff'])] })
    assert.equal(result.defaultUser, 'web:staff')
    assert.deepEqual(site.fixture.agent.commands, [
      {
        command: makeUser,
        user: 'root',
        cwd: '/home/user',
        envs: { WARREN_USER: 'web', WARREN_GROUP: 'staff' },
      },
    ])
  })

  it('may be a number, with a group or without', async () => {
    await using site = await openBuilder()
    for (const user of ['1000', '1000:1000', 'web:5']) {
      const { result } = await site.build({ steps: [step('USER', [user]), ...runs(`as ${user}`)] })
      assert.equal(result.defaultUser, user)
      assert.equal(site.fixture.agent.commands.at(-1)?.user, user)
    }
  })

  it('is rejected if it is no valid name, and nothing runs', async () => {
    await using site = await openBuilder()
    for (const bad of ['', '-x', 'a b', 'a;id', 'a:b:c', '../a', '$X', 'a\nb']) {
      const steps = [step('ENV', ['X', '']), step('USER', [bad])]
      await assert.rejects(site.build({ steps }), failsIn('2', /that is no user/), bad)
    }
    assert.equal(site.fixture.agent.ran.length, 0)
  })
})

describe('COPY', () => {
  const copying = (args: string[], more: Partial<BuildStep> = {}) =>
    step('COPY', args, { filesHash: someHash, ...more })

  it('uploads the archive and unpacks it there, for the current user', async () => {
    await using site = await openBuilder()
    const text = await site.upload('content')
    await site.build({
      steps: [step('ENV', ['D', 'to']), step('USER', ['me']), copying(['src/*', '$D/', '', ''])],
    })
    const { agent } = site.fixture
    assert.deepEqual(agent.written, [{ path: '/tmp/.warren-files.tar', text }])
    assert.deepEqual(agent.commands.at(-1), {
      command: copy,
      user: 'root',
      cwd: '/home/user',
      envs: {
        WARREN_ARCHIVE: '/tmp/.warren-files.tar',
        WARREN_SRC: 'src/*',
        WARREN_DEST: 'to/',
        WARREN_OWNER: 'me:',
        WARREN_MODE: '',
      },
    })
  })

  it('takes an owner with or without a group, and a mode', async () => {
    await using site = await openBuilder()
    await site.upload('x')
    await site.build({
      steps: [
        copying(['a', 'b', 'www', '0755']),
        copying(['a', 'b', 'www:staff', '0000']),
        copying(['.', '.']),
      ],
    })
    const given = site.fixture.agent.commands.map(({ envs }) => [envs.WARREN_OWNER, envs.WARREN_MODE])
    assert.deepEqual(given, [
      ['www:', '0755'],
      ['www:staff', '0000'],
      ['user:', ''],
    ])
  })

  it('rejects invalid owners and modes, and missing paths', async () => {
    await using site = await openBuilder()
    await site.upload('x')
    const refused: [string[], RegExp][] = [
      [['a', 'b', 'x y', ''], /^failed to copy 'a' to 'b': 'x y' is no user$/],
      [['a', 'b', '$(id)', ''], /is no user/],
      [['a', 'b', '', '0999'], /'0999' is no mode/],
      [['a', 'b', '', 'u+s'], /is no mode/],
      [['a', 'b', '', '07777'], /is no mode/],
      [['a'], /a source and a destination are needed/],
    ]
    for (const [args, says] of refused) {
      await assert.rejects(site.build({ steps: [copying(args)] }), failsIn('1', says))
    }
    assert.equal(site.fixture.agent.written.length, 0)
  })

  it('fails without an upload of its own team, and starts nothing', async () => {
    await using site = await openBuilder()
    const { driver } = site.fixture
    await site.upload('x')
    driver.beforeStarted = async () => assert.fail('a sandbox was started')
    const says = failsIn('1', /^failed to copy 'a' to 'b': its files were not uploaded/)
    await assert.rejects(site.build({ steps: [copying(['a', 'b'], { filesHash: null })] }), says)
    await assert.rejects(site.build({ steps: [copying(['a', 'b'])], teamID: 'team-other' }), says)
  })

  it('reports the last error line of the sandbox', async () => {
    await using site = await openBuilder()
    await site.upload('x')
    site.fixture.agent.runs = async (_: string, { say }: Inside) => {
      say('stderr', 'a warning\nsrc is not among the files that were uploaded\n')
      return failed
    }
    const says = /^failed to copy 'src' to 'b': src is not among the files that were uploaded$/
    await assert.rejects(site.build({ steps: [copying(['src', 'b'])] }), failsIn('1', says))
  })
})

describe('every kind of step', () => {
  it('fails under its own number when the sandbox cannot be started', async () => {
    await using site = await openBuilder()
    await site.upload('x')
    site.fixture.driver.beforeStarted = async () => {
      throw new AppError('no_space', 'the disk is full')
    }
    for (const type of stepTypes) {
      const steps = [step('ENV', ['A', 'b']), step(type, ['a', '$HOME'], { filesHash: someHash })]
      await assert.rejects(site.build({ steps }), failsIn('2', /the disk is full/), type)
    }
    assert.equal(site.fixture.driver.world.sandboxes.size, 0)
  })
})
