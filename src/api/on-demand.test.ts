/** Creates that ask for an image or a size: one build for all, found again, and clear answers where that fails. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { type Builder, BuildFailure, type BuildJob } from '../core/template/builder.ts'
import { AppError } from '../lib/app-error.ts'

type Warren = Awaited<ReturnType<typeof openApi>>

/** A registry and a builder that tests closeGate back. */
async function openOnDemand() {
  const registry = { digest: 'sha256:one', isAway: false, asked: 0 }
  const jobs: BuildJob[] = []
  const gate = { open: () => {}, wait: Promise.resolve(), fails: false }
  const builder: Builder = {
    async run(job, _log, _signal, onResult) {
      jobs.push(job)
      await gate.wait
      if (gate.fails) throw new BuildFailure('base', 'the registry has no such image')
      const service = { startCmd: null, readyCmd: null, serviceContext: null }
      const context = { envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user', ...service }
      await onResult({ rootFolder: 'root', layers: null, snapshot: null, ...context })
    },
  }
  const warren = await openApi({
    fixture: {
      ports: {
        createBuilder: () => builder,
        images: {
          prune: async () => ({ count: 0, bytes: 0 }),
          missing: () => [],
          async digestOf(image) {
            registry.asked++
            if (image.includes(' '))
              throw new AppError('invalid_argument', 'This is not the name of an image')
            if (registry.isAway) throw new AppError('unavailable', 'the registry does not answer')
            return registry.digest
          },
        },
      },
    },
  })
  const closeGate = () => {
    gate.wait = new Promise((resolve) => {
      gate.open = resolve
    })
  }
  return Object.assign(warren, { registry, builds: jobs, gate, closeGate })
}

const create = (warren: Warren, metadata: Record<string, string>, templateID = 'base') =>
  warren.ask('POST', '/v2/sandboxes', { body: { templateID, metadata } })

/** Turns the clock until the answer is there. */
async function answered<T>(warren: Warren, answer: Promise<T>): Promise<T> {
  let isThere = false
  void answer.then(
    () => (isThere = true),
    () => (isThere = true),
  )
  while (!isThere) {
    await new Promise((resolve) => setImmediate(resolve))
    await warren.fixture.clock.advance(300)
  }
  return answer
}

describe('a create with an image or a size', () => {
  it('builds an image once, for creates at the same time and for later ones', async () => {
    await using warren = await openOnDemand()
    const metadata = { 'warren.image': 'ubuntu:24.04' }
    const both = Promise.all([create(warren, metadata), create(warren, metadata)])
    for (const { status, body } of await answered(warren, both)) assert.equal(status, 201, body)
    const third = await answered(warren, create(warren, metadata))
    assert.equal(warren.builds.length, 1)
    assert.deepEqual(warren.builds[0]!.source, { image: 'ubuntu:24.04' })
    assert.equal(warren.registry.asked, 1, 'the registry was asked again within a minute')
    assert.match(third.json().alias, /^ubuntu-24-04-2cpu-1024mb-[0-9a-f]{10}$/)
    const [listed] = (await warren.ask('GET', '/templates')).json()
    assert.deepEqual(listed.aliases, [third.json().alias])
    const shown = (await warren.ask('GET', `/sandboxes/${third.json().sandboxID}`)).json()
    assert.deepEqual(shown.metadata, metadata)
  })

  it('builds again once the name means other bytes, and uses what it has while the registry is away', async () => {
    await using warren = await openOnDemand()
    const metadata = { 'warren.image': 'ubuntu' }
    const first = await answered(warren, create(warren, metadata))
    warren.registry.digest = 'sha256:two'
    await warren.fixture.clock.advance(61_000)
    const second = await answered(warren, create(warren, metadata))
    assert.equal(warren.builds.length, 2)
    assert.equal(second.json().templateID, first.json().templateID)
    warren.registry.isAway = true
    await warren.fixture.clock.advance(61_000)
    assert.equal((await answered(warren, create(warren, metadata))).status, 201)
    const other = await answered(warren, create(warren, { 'warren.image': 'debian' }))
    assert.equal(other.status, 503)
    assert.match(other.json().message, /the registry does not answer/)
    assert.equal(warren.builds.length, 2)
  })

  it('gives a template another size, and takes it as it is where the size is its own', async () => {
    await using warren = await openOnDemand()
    const made = await answered(warren, create(warren, { 'warren.cpu': '4', 'warren.memory': '2g' }))
    assert.equal(made.status, 201, made.body)
    const shown = (await warren.ask('GET', `/sandboxes/${made.json().sandboxID}`)).json()
    assert.deepEqual([shown.cpuCount, shown.memoryMB], [4, 2048])
    assert.match(shown.alias, /^base-4cpu-2048mb-/)
    const own = (await warren.ask('GET', `/sandboxes/${await warren.create()}`)).json()
    const same = { 'warren.cpu': String(own.cpuCount), 'warren.memory': String(own.memoryMB) }
    const unchanged = await answered(warren, create(warren, same))
    assert.equal(unchanged.json().templateID, own.templateID)
    assert.equal(warren.builds.length, 1)
  })

  it('answers 503 with what to do while a build takes longer, and the build goes on', async () => {
    await using warren = await openOnDemand()
    warren.closeGate()
    const metadata = { 'warren.image': 'large' }
    const early = await answered(warren, create(warren, metadata))
    assert.equal(early.status, 503)
    assert.match(early.json().message, /^A template is being built of large\. Try again in a moment/)
    assert.deepEqual([early.headers['should-retry'], early.headers['retry-after']], ['true', '5'])
    warren.gate.open()
    assert.equal((await answered(warren, create(warren, metadata))).status, 201)
    assert.equal(warren.builds.length, 1)
  })

  it('says why a build failed, and tries again with the next create', async () => {
    await using warren = await openOnDemand()
    warren.gate.fails = true
    const metadata = { 'warren.image': 'nosuch' }
    const failed = await answered(warren, create(warren, metadata))
    assert.equal(failed.status, 422)
    assert.match(failed.json().message, /^No template could be built of nosuch: .*no such image/)
    warren.gate.fails = false
    assert.equal((await answered(warren, create(warren, metadata))).status, 201)
  })

  it('rejects hostile and impossible values before anything is asked or built', async () => {
    await using warren = await openOnDemand()
    const wrong: [Record<string, string>, RegExp, string?][] = [
      [{ 'warren.image': '' }, /a name of 1 to 384 characters/],
      [{ 'warren.image': 'x'.repeat(385) }, /a name of 1 to 384 characters/],
      [{ 'warren.image': 'a b' }, /This is not the name of an image/],
      [{ 'warren.image': 'ubuntu' }, /exclude each other/, 'other'],
      [{ 'warren.cpu': '0' }, /warren\.cpu must be a number of CPUs, not '0'/],
      [{ 'warren.cpu': '3' }, /1 or an even number/],
      [{ 'warren.cpu': '1e3' }, /must be a number of CPUs/],
      [{ 'warren.cpu': '10' }, /at most 8/],
      [{ 'warren.memory': 'lots' }, /warren\.memory must be MiB from 128 on, or have a unit such as 4g/],
      [{ 'warren.memory': '64' }, /MiB from 128 on/],
      [{ 'warren.memory': '16g' }, /can't be higher than 8192 MiB/],
    ]
    for (const [metadata, says, template] of wrong) {
      const answer = await create(warren, metadata, template)
      assert.equal(answer.status, 400, JSON.stringify(metadata))
      assert.match(answer.json().message, says)
    }
    assert.equal((await create(warren, { 'warren.cpu': '4' }, 'nosuch')).status, 404)
    assert.equal(warren.builds.length, 0)
  })

  it('can be prepared, so that a client can follow the build', async () => {
    await using warren = await openOnDemand()
    warren.closeGate()
    const prepare = () =>
      warren.ask('POST', '/templates/on-demand', { body: { image: 'ubuntu', cpuCount: 4 } })
    const first = (await prepare()).json()
    assert.equal(first.status, 'building')
    const status = `/templates/${first.templateID}/builds/${first.buildID}/status`
    assert.equal((await warren.ask('GET', status)).json().status, 'building')
    assert.deepEqual((await prepare()).json(), first)
    warren.gate.open()
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
    assert.equal((await prepare()).json().status, 'ready')
    const body = { templateID: first.reference }
    assert.equal((await warren.ask('POST', '/v2/sandboxes', { body })).status, 201)
  })
})
