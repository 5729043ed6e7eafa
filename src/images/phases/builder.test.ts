import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openBuilder, runs, someHash, step } from '../../../test/support/builder.ts'
import { addTeam, gate } from '../../../test/support/domain.ts'
import { BuildFailure, type BuildJob } from '../../core/template/builder.ts'
import { AppError } from '../../lib/app-error.ts'
import { provision } from './scripts.ts'

type Site = Awaited<ReturnType<typeof openBuilder>>

const ok = { exitCode: 0, status: 'exit status 0' }
const failed = { exitCode: 1, status: 'exit status 1' }
const image = { source: { image: 'debian:12' } }

const failsIn =
  (number: string, says: RegExp, code = 'unprocessable') =>
  (error: unknown): boolean => {
    assert.ok(error instanceof BuildFailure)
    assert.deepEqual([error.step, error.code], [number, code])
    const [message, where] = error.message.split('. This was ')
    assert.match(message!, says)
    assert.ok(where, 'the step is named')
    return true
  }

/** Every command leaves its text as a file. */
function leaveTraces({ fixture: { agent } }: Site): void {
  agent.runs = async (command, { sandbox }) => {
    sandbox.files.set(command, '')
    return command === 'fail' ? failed : ok
  }
}

/** The files that sandboxes of a build begin with. */
function filesIn({ fixture: { driver } }: Site, name: string | undefined): string[] {
  return [...(driver.world.snapshots.get(name ?? '')?.content.files.keys() ?? [])]
}

const cachedOf = (lines: string[]) => lines.filter((line) => line.startsWith('CACHED')).length

describe('the base of a build', () => {
  it('is our own base template for the names that clients use', async () => {
    await using site = await openBuilder()
    for (const name of ['e2bdev/base', 'e2bdev/base:latest', 'docker.io/e2bdev/base']) {
      const { result } = await site.build({ source: { image: name } })
      assert.deepEqual([result.rootFolder, result.layers, result.snapshot], ['root', null, null])
    }
    assert.equal(site.images.pulls.length, 0)
    await site.build({ source: { image: 'e2bdev/base-more' } })
    assert.equal(site.images.pulls.length, 1)
  })

  it('is an image that was prepared once, with its variables and our user', async () => {
    await using site = await openBuilder()
    const { agent, driver } = site.fixture
    leaveTraces(site)
    const credentials = { type: 'registry', username: 'u', password: 'p' } as const
    const first = await site.build({ source: { image: 'debian:12', credentials } })
    const { result } = first
    assert.deepEqual(result.layers, site.pulled.layers)
    assert.equal(result.rootFolder, null)
    assert.deepEqual(result.envVars, { PATH: '/image/bin' })
    assert.deepEqual([result.defaultUser, result.defaultWorkdir], ['user', '/home/user'])
    assert.deepEqual(filesIn(site, result.snapshot?.name), [provision])
    const envs = { PATH: '/image/bin', WARREN_PATH: '/image/bin' }
    assert.deepEqual(agent.commands, [{ command: provision, shell: 'sh', user: 'root', cwd: '/', envs }])
    assert.match(first.lines[1]!, /^\[base\] FROM debian:12 \[[0-9a-f]{12}\]$/)
    const second = await site.build(image)
    assert.match(second.lines[1]!, /^CACHED \[base\] FROM debian:12 \[/)
    assert.deepEqual(second.result, result)
    assert.equal(agent.ran.length, 1)
    assert.deepEqual(
      site.images.pulls.map(([name, options]) => [name, options.credentials]),
      [
        ['debian:12', credentials],
        ['debian:12', undefined],
      ],
    )
    assert.equal(driver.world.sandboxes.size, 0)
  })

  it('is prepared again if the image has changed, is forced, or is of another team', async () => {
    await using site = await openBuilder()
    const { agent } = site.fixture
    await site.build(image)
    await site.build({ ...image, force: true })
    assert.equal(agent.ran.length, 2)
    const { teamID } = await addTeam(site.fixture, 'other')
    await site.build({ ...image, teamID })
    assert.equal(agent.ran.length, 3)
    site.images.gives = async () => ({ ...site.pulled, digest: 'sha256:two' })
    await site.build(image)
    assert.equal(agent.ran.length, 4)
  })

  it('logs the output of its preparation at the debug level', async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = async (_, { say }) => {
      say('stdout', 'Missing in this image: curl')
      return ok
    }
    await site.build(image)
    const line = { level: 'debug', message: '[base] Missing in this image: curl', step: 'base' }
    assert.deepEqual(site.lines[2], line)
  })

  it('fails as the step "base", and is tried again the next time', async () => {
    await using site = await openBuilder()
    const { agent, driver } = site.fixture
    site.images.gives = async () => {
      throw new AppError('not_found', 'there is no image debian:12')
    }
    await assert.rejects(site.build(image), failsIn('base', /there is no image/, 'not_found'))
    site.images.gives = async () => site.pulled
    agent.runs = async () => failed
    await assert.rejects(site.build(image), failsIn('base', /could not be prepared: exit status 1/))
    assert.equal(driver.world.sandboxes.size + driver.world.snapshots.size, 0)
    agent.runs = async () => ok
    await site.build(image)
    assert.equal(agent.ran.length, 2)
  })

  it('is another template, with its files and without its memory', async () => {
    await using site = await openBuilder()
    const { agent, driver } = site.fixture
    agent.runs = (command, { sandbox }) => {
      sandbox.files.set(command, '')
      sandbox.memory.set(command, '')
      return command === 'serve' ? new Promise(() => {}) : Promise.resolve(ok)
    }
    const steps = [step('ENV', ['A', '1', '__proto__', '2']), step('USER', ['me'])]
    const parent = await site.build({ steps, startCmd: 'serve', readyCmd: 'ready' })
    assert.equal(parent.result.snapshot?.memory, true)
    const source = { build: await site.asTemplate(parent.result) }
    const seen: [string[], string[]][] = []
    agent.runs = async (_, { sandbox }) => {
      seen.push([[...sandbox.memory.keys()], [...sandbox.files.keys()].slice(-2)])
      return ok
    }
    const child = await site.build({ source, steps: runs('look') })
    assert.deepEqual(seen[0], [[], ['serve', 'ready']])
    assert.deepEqual(agent.commands.find(({ command }) => command === 'look')?.envs, {
      A: '1',
      ['__proto__']: '2',
    })
    assert.equal(child.result.defaultUser, 'me')
    const quiet = { build: { ...source.build, startCmd: null, readyCmd: null } }
    const bare = await site.build({ source: quiet })
    const { name } = parent.result.snapshot!
    assert.deepEqual(bare.result.snapshot, { name, memory: false, sandboxID: '' })
    assert.equal(driver.world.sandboxes.size, 0)
  })

  it('is another template, whose service is inherited unless the build has its own', async () => {
    await using site = await openBuilder()
    const { agent } = site.fixture
    agent.runs = (command) => (/^serve/.test(command) ? new Promise(() => {}) : Promise.resolve(ok))
    const parent = await site.build({ startCmd: 'serve', readyCmd: 'ready' })
    const source = { build: await site.asTemplate(parent.result) }
    const cases: [given: Partial<BuildJob>, startCmd: string, readyCmd: string | null][] = [
      [{}, 'serve', 'ready'],
      [{ readyCmd: 'better' }, 'serve', 'better'],
      [{ startCmd: 'serve mine', readyCmd: 'mine' }, 'serve mine', 'mine'],
      [{ startCmd: 'serve mine' }, 'serve mine', null],
    ]
    for (const [given, startCmd, readyCmd] of cases) {
      agent.ran.length = 0
      const { result } = await site.build({ source, ...given })
      assert.deepEqual([result.startCmd, result.readyCmd], [startCmd, readyCmd])
      assert.deepEqual(agent.ran, [startCmd, readyCmd ?? 'sleep 20'])
      assert.equal(result.snapshot?.memory, true)
    }
  })

  it('is rejected if the files of the other template are missing, even if no step needs them', async () => {
    await using site = await openBuilder()
    const parent = await site.build({ steps: runs('one') })
    const source = { build: await site.asTemplate(parent.result) }
    site.fixture.driver.world.snapshots.clear()
    await assert.rejects(site.build({ source }), failsIn('base', /does not exist any more/))
  })
})

describe('the cache of a team', () => {
  it('skips every step that an earlier build has done in the same way', async () => {
    await using site = await openBuilder()
    leaveTraces(site)
    const steps = [...runs('one', 'two'), step('ENV', ['A', 'b']), step('USER', ['me'])]
    const first = await site.build({ steps })
    const ran = site.fixture.agent.ran.length
    const second = await site.build({ steps })
    assert.equal(site.fixture.agent.ran.length, ran)
    assert.equal(cachedOf(second.lines), 4)
    assert.match(second.lines[1]!, /^CACHED \[builder 1\/4\] RUN one \[[0-9a-f]{12}\]$/)
    assert.deepEqual(second.result, first.result)
    assert.deepEqual(filesIn(site, second.result.snapshot?.name).slice(0, 2), ['one', 'two'])
  })

  it('is used up to the first step that differs', async () => {
    await using site = await openBuilder()
    leaveTraces(site)
    await site.build({ steps: runs('one', 'two', 'three') })
    const { lines, result } = await site.build({ steps: runs('one', 'other', 'three') })
    assert.equal(cachedOf(lines), 1)
    assert.deepEqual(site.fixture.agent.ran.slice(-2), ['other', 'three'])
    assert.deepEqual(filesIn(site, result.snapshot?.name), ['one', 'other', 'three'])
  })

  it('is not used from a forced step on, nor in a forced build', async () => {
    await using site = await openBuilder()
    await site.build({ steps: runs('one', 'two', 'three') })
    const [one, two, three] = runs('one', 'two', 'three')
    const { lines } = await site.build({ steps: [one!, { ...two!, force: true }, three!] })
    assert.equal(cachedOf(lines), 1)
    assert.deepEqual(site.fixture.agent.ran.slice(3), ['two', 'three'])
    assert.equal(cachedOf((await site.build({ steps: runs('one'), force: true })).lines), 0)
    assert.equal(cachedOf((await site.build({ steps: runs('one') })).lines), 1)
  })

  it('is not shared with another team', async () => {
    await using site = await openBuilder()
    await site.build({ steps: runs('one') })
    const { teamID } = await addTeam(site.fixture, 'other')
    assert.equal(cachedOf((await site.build({ steps: runs('one'), teamID })).lines), 0)
  })

  it('distinguishes steps that only look alike', async () => {
    await using site = await openBuilder()
    await site.upload('x')
    await site.upload('y', 'cd'.repeat(32))
    const alike = [
      step('RUN', ['make install']),
      step('RUN', ['make', 'install']),
      step('ENV', ['a', 'b c', 'd', '']),
      step('ENV', ['a', 'b', 'c', 'd ']),
      step('COPY', ['a', 'b'], { filesHash: someHash }),
      step('COPY', ['a', 'b'], { filesHash: 'cd'.repeat(32) }),
      step('RUN', ['a\nb']),
      step('RUN', ['a', 'b']),
    ]
    for (const each of alike) assert.equal(cachedOf((await site.build({ steps: [each] })).lines), 0)
    for (const each of alike) assert.equal(cachedOf((await site.build({ steps: [each] })).lines), 1)
  })

  it('is not used if its layers are gone', async () => {
    await using site = await openBuilder()
    leaveTraces(site)
    const first = await site.build({ ...image, steps: runs('one', 'two') })
    site.fixture.driver.world.snapshots.delete(first.result.snapshot!.name)
    const second = await site.build({ ...image, steps: runs('one', 'two') })
    assert.equal(cachedOf(second.lines), 2)
    assert.deepEqual(filesIn(site, second.result.snapshot?.name), [provision, 'one', 'two'])
    site.fixture.driver.world.snapshots.clear()
    const third = await site.build({ ...image, steps: runs('one', 'two') })
    assert.equal(cachedOf(third.lines), 0)
    assert.deepEqual(filesIn(site, third.result.snapshot?.name), [provision, 'one', 'two'])
  })

  it('may be removed in the middle of a build that uses it', async () => {
    await using site = await openBuilder()
    const { stores, reconciler, driver, agent } = site.fixture
    leaveTraces(site)
    await site.build({ ...image, steps: runs('one') })
    const forget = async () => {
      await stores.buildCache.remove(await stores.buildCache.list())
      await reconciler.run()
    }
    agent.runs = async (command, { sandbox }) => {
      await forget()
      sandbox.files.set(command, '')
      return ok
    }
    const { result, lines } = await site.build({ ...image, steps: runs('one', 'two', 'three') })
    assert.equal(cachedOf(lines), 2)
    assert.deepEqual(filesIn(site, result.snapshot?.name), [provision, 'one', 'two', 'three'])
    await forget()
    assert.equal(driver.world.snapshots.size, 0)
  })
})

describe('a build that does not finish', () => {
  it('keeps its finished steps, and nothing of the failed one', async () => {
    await using site = await openBuilder()
    const { driver, reconciler } = site.fixture
    leaveTraces(site)
    await assert.rejects(
      site.build({ steps: runs('one', 'fail', 'three') }),
      failsIn('2', /^failed to run command 'fail': exit status 1$/),
    )
    assert.equal(driver.world.sandboxes.size, 0)
    await reconciler.run()
    assert.equal(driver.world.snapshots.size, 1)
    await assert.rejects(site.build({ steps: runs('one', 'fail') }), BuildFailure)
    assert.deepEqual(site.fixture.agent.ran, ['one', 'fail', 'fail'])
  })

  it('reports a failure of the machine in the step where it happened', async () => {
    await using site = await openBuilder()
    site.fixture.driver.beforeSnapshot = async () => {
      throw new AppError('no_space', 'the disk is full')
    }
    await assert.rejects(site.build({ steps: runs('one') }), failsIn('1', /the disk is full/, 'no_space'))
    assert.equal(site.fixture.driver.world.sandboxes.size, 0)
  })

  it('leaves nothing behind when it is cancelled, at any point', async () => {
    const reason = new AppError('conflict', 'called off')
    for (const point of ['pull', 'boot', 'command', 'save', 'service'] as const) {
      await using site = await openBuilder()
      const { driver, agent, reconciler } = site.fixture
      const reached = gate()
      const stuck = () => {
        reached.open()
        return new Promise<never>(() => {})
      }
      const abort = new AbortController()
      if (point === 'pull') {
        site.images.gives = () => {
          reached.open()
          return new Promise((_, reject) =>
            abort.signal.addEventListener('abort', () => reject(new Error('cut off'))),
          )
        }
      }
      if (point === 'boot') driver.beforeStarted = stuck
      if (point === 'command') agent.runs = stuck
      if (point === 'save') driver.beforeSnapshot = stuck
      if (point === 'service') {
        agent.runs = (command) => (command === 'serve' ? stuck() : Promise.resolve(ok))
      }
      const service = point === 'service' ? { startCmd: 'serve', readyCmd: 'serve' } : {}
      const source = point === 'pull' ? image : {}
      const building = site.build({ ...source, steps: runs('one'), ...service }, abort.signal)
      const refused = assert.rejects(building, reason, point)
      await reached.opened
      abort.abort(reason)
      await refused
      assert.equal(driver.world.sandboxes.size, 0, point)
      await reconciler.run()
      assert.equal(driver.world.snapshots.size, point === 'service' ? 1 : 0, point)
    }
  })
})

describe('the service of a template', () => {
  const serving: Site['fixture']['agent']['runs'] = (command, { sandbox, say }) => {
    sandbox.memory.set(command, '')
    if (command !== 'serve') return Promise.resolve(ok)
    say('stdout', 'listening\n')
    return new Promise(() => {})
  }

  it('is in a snapshot with its memory once it is ready', async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = serving
    const steps = [step('ENV', ['A', '1']), step('USER', ['me']), step('WORKDIR', ['/app'])]
    const { result, lines } = await site.build({ steps, startCmd: 'serve', readyCmd: 'ready' })
    assert.equal(result.snapshot?.memory, true)
    assert.deepEqual([result.startCmd, result.readyCmd], ['serve', 'ready'])
    const { memory } = site.fixture.driver.world.snapshots.get(result.snapshot!.name)!.content
    assert.deepEqual([...memory.keys()], ['serve', 'ready'])
    const [serve, ready] = site.fixture.agent.commands.slice(-2)
    assert.deepEqual([serve?.user, serve?.cwd, serve?.tag], ['me', '/app', 'start_cmd'])
    assert.deepEqual([ready?.user, ready?.cwd], ['me', '/app'])
    assert.deepEqual(lines.slice(-5), [
      '[finalize] Finalizing template build',
      'Running start command: serve',
      'Waiting for template to be ready: ready',
      '[start] [stdout]: listening',
      'Template is ready',
    ])
  })

  it('is only tried if snapshots contain no memory', async () => {
    await using site = await openBuilder({ snapshotMemory: false })
    site.fixture.agent.runs = serving
    const { result } = await site.build({ steps: runs('one'), startCmd: 'serve', readyCmd: 'ready' })
    assert.equal(result.snapshot?.memory, false)
    assert.equal(result.startCmd, 'serve')
    const bare = await site.build({ startCmd: 'serve', readyCmd: 'ready' })
    assert.equal(bare.result.snapshot, null)
    assert.equal(site.fixture.driver.world.sandboxes.size, 0)
  })

  it('fails the build if it ends before it is ready', async () => {
    await using site = await openBuilder()
    site.fixture.agent.runs = (command) =>
      command === 'serve' ? Promise.resolve(failed) : new Promise(() => {})
    const building = site.build({ steps: runs(), startCmd: 'serve', readyCmd: 'ready' })
    await assert.rejects(building, failsIn('finalize', /ended before it was ready: exit status 1/))
    assert.equal(site.fixture.driver.world.sandboxes.size + site.fixture.driver.world.snapshots.size, 0)
  })
})
