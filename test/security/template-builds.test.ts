/** What images, registries, uploads and steps may try against the machine that builds templates of them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { BuildError, Template, type TemplateBuilder } from 'e2b'
import { layerOf, type MadeEntry, type MadeLayer, sha256, tarOf } from '../../src/images/archive-fixture.ts'
import { addImage, type FakeRegistry, fileLayer, startRegistry } from '../../src/images/registry-fixture.ts'
import { buildsOf, listening, type SecondTeam, sayIn, secondTeam } from '../support/building.ts'
import { filesWith } from '../support/leaked-texts.ts'
import { busyboxRoot } from '../support/roots.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const canary = `/tmp/warren-canary-${process.pid}`
const name = canary.slice('/tmp/'.length)
const login = { username: 'me', password: 'pa55-of-the-hostile-tests' }
const basic = Buffer.from(`${login.username}:${login.password}`).toString('base64')

async function busyboxLayer(): Promise<MadeLayer> {
  const options = { maxBuffer: 1 << 26 }
  return layerOf(spawnSync('tar', ['-C', await busyboxRoot(), '-c', '.'], options).stdout)
}

/** May be in an image, and stays in it. */
const contained: MadeEntry[] = [
  { name: canary, content: 'absolute' },
  { name: 'srv/out', type: '2', target: '/tmp' },
  { name: `srv/out/${name}-linked`, content: 'through a link' },
  { name: 'srv/up', type: '2', target: '../../../../../../../..' },
  { name: `srv/up/tmp/${name}-up`, content: 'through a link' },
  { name: 'srv/disk', type: '4' },
  { name: 'srv/setuid', content: 'x', mode: 0o4755 },
]
const refusedLayers: Record<string, MadeEntry[]> = {
  'a name with ..': [{ name: `../../../../../../tmp/${name}`, content: 'evil' }],
  'a hard link to a file of the machine': [{ name: 'stolen', type: '1', target: '/etc/shadow' }],
  'a hard link through a link': [
    { name: 'd', type: '2', target: '/etc' },
    { name: 'stolen', type: '1', target: 'd/shadow' },
  ],
  'a hard link with ..': [{ name: 'stolen', type: '1', target: '../../../../../../etc/shadow' }],
}
type Manifest = { layers: Record<string, unknown>[]; schemaVersion: number }
const refusedManifests: Record<string, [(manifest: Manifest) => void, RegExp]> = {
  foreign: [
    ({ layers }) => Object.assign(layers[0]!, { urls: ['http://127.0.0.1:1/x'] }),
    /outside its registry/,
  ],
  schema: [(manifest) => Object.assign(manifest, { schemaVersion: 1 }), /schema 1/],
  path: [({ layers }) => Object.assign(layers[0]!, { digest: 'sha256:../../etc/shadow' }), /digest/],
  huge: [({ layers }) => Object.assign(layers[0]!, { size: 2 ** 50 }), /larger than .* the limit/],
  many: [
    (manifest) => Object.assign(manifest, { layers: Array(128).fill(manifest.layers[0]) }),
    /128 layers/,
  ],
}

for (const isolation of isolations) {
  describe(`hostile template builds, ${isolation}`, () => {
    let warren: Warren
    let others: SecondTeam
    let registry: FakeRegistry
    let storage: FakeRegistry
    let inside: FakeRegistry
    before(async () => {
      registry = await startRegistry()
      storage = await startRegistry()
      inside = await startRegistry()
      const settings = {
        ...noWarmPool,
        WARREN_PRIVATE_REGISTRIES: `${registry.host},${storage.host}`,
        WARREN_DEFAULT_DISK_MB: '64',
      }
      warren = await startWarren(isolation, { settings })
      others = await secondTeam(warren)
    })
    after(async () => {
      await warren?.stop()
      for (const one of [registry, storage, inside]) await one?.close()
      for (const left of readdirSync('/tmp')) if (left.startsWith(name)) rmSync(join('/tmp', left))
    })
    const nothingOutside = () =>
      assert.deepEqual(
        readdirSync('/tmp').filter((file) => file.startsWith(name)),
        [],
      )
    const layers = () => readdirSync(join(warren.dataFolder, 'images/layers')).sort()
    const refusal = async (template: TemplateBuilder, alias: string): Promise<string> => {
      const error = await Template.build(template, alias, warren.client).catch((error) => error)
      assert.ok(error instanceof BuildError, `${alias}: ${error}`)
      return error.message
    }

    it('an image that tries to reach the machine stays within itself, or is rejected', async () => {
      addImage(registry, 'contained', { layers: [await busyboxLayer(), layerOf(tarOf(contained))] })
      const template = Template().fromImage(`${registry.host}/evil:contained`)
      await Template.build(template, 'contained', warren.client)
      const show = `cd /tmp; cat ${name} ${name}-linked; ls ${name}-up; cd /srv; ls; stat -c '%a %u' setuid`
      const said = await sayIn(warren, 'contained', show)
      assert.equal(said, `absolutethrough a link${name}-up\nout\nsetuid\nup\n4755 0\n`)
      nothingOutside()
      const before = layers()
      const cases: [string, RegExp][] = []
      for (const [what, entries] of Object.entries(refusedLayers)) {
        const tag = what.replaceAll(/\W+/g, '-')
        addImage(registry, tag, { layers: [layerOf(tarOf(entries))] })
        cases.push([tag, /A layer cannot be unpacked: .*(\.\.|link)/])
      }
      for (const [tag, [change, reason]] of Object.entries(refusedManifests)) {
        const changed = (manifest: object) => change(manifest as Manifest)
        addImage(registry, tag, { layers: [fileLayer(tag, tag)], change: changed })
        cases.push([tag, reason])
      }
      const swapped = fileLayer('swapped', 'swapped')
      addImage(registry, 'swapped', { layers: [swapped] })
      registry.blobs.set(sha256(swapped.blob), Buffer.alloc(swapped.blob.length, 1))
      cases.push(['swapped', /digest|damaged/])
      await Promise.all(
        cases.map(async ([tag, reason]) => {
          assert.match(await refusal(Template().fromImage(`${registry.host}/evil:${tag}`), tag), reason, tag)
          assert.equal((await buildsOf(warren, tag))[0]?.status, 'error')
        }),
      )
      assert.deepEqual(layers(), before)
      nothingOutside()
    })

    it('the output of a step is text, never a command for the machine', async () => {
      const evil = `$(touch ${canary}) \`touch ${canary}\` '; touch ${canary} #\n"`
      const folder = `/srv/a '"\`touch ${canary}\``
      const template = Template()
        .fromBaseImage()
        .setEnvs({ EVIL: evil.replaceAll('$', '\\$') })
        .setWorkdir(folder)
        .runCmd('printf %s "$EVIL" > evil; pwd > "it\'s here"')
      await Template.build(template, 'quoted', warren.client)
      const said = await sayIn(warren, 'quoted', `cat evil "it's here"; ls /tmp | grep -c ${name}`).catch(
        (error: { stdout?: string }) => error.stdout,
      )
      assert.equal(said, `${evil}${folder}\n0\n`)
      const user = Template().fromBaseImage().setUser(`x; touch ${canary}`)
      assert.match(await refusal(user, 'quoted'), /no user/)
      const serving = Template().fromBaseImage().setStartCmd(`touch ${canary}; sleep 100`, `ls ${canary}`)
      await Template.build(serving, 'serving', warren.client)
      assert.equal(existsSync(canary), false)
    })

    it('an uploaded archive is unpacked where the step runs', async () => {
      const hash = sha256(String(Date.now())).slice('sha256:'.length)
      const asked = await warren.api('/v3/templates', { body: { name: 'uploaded' } })
      const { templateID, buildID } = (await asked.json()) as { templateID: string; buildID: string }
      const link = await warren.api(`/templates/${templateID}/files/${hash}`)
      const { url } = (await link.json()) as { url: string }
      const archive = tarOf([
        { name: 'x/out', type: '2', target: '/tmp' },
        { name: `x/out/${name}`, content: 'evil' },
        { name: `../../../../../../tmp/${name}`, content: 'evil' },
        { name: 'x/stolen', type: '1', target: '/etc/shadow' },
        { name: 'x/disk', type: '4' },
      ])
      assert.equal((await fetch(url, { method: 'PUT', body: new Uint8Array(archive) })).status, 200)
      const path = `/templates/${templateID}/builds/${buildID}`
      const steps = [{ type: 'COPY', args: ['x', '/srv', '', ''], filesHash: hash }]
      assert.equal(
        (await warren.api(`/v2${path}`, { body: { fromImage: 'e2bdev/base', steps } })).status,
        202,
      )
      let status = 'building'
      while (status === 'building')
        status = ((await (await warren.api(`${path}/status`)).json()) as { status: string }).status
      assert.equal(status, 'error')
      nothingOutside()
      for (const end of ['status', 'logs']) {
        const answer = await warren.api(`${path}/${end}`, { key: others.client.apiKey })
        assert.equal(answer.status, 403, end)
        assert.ok(!(await answer.text()).includes('COPY'))
      }
    })

    it('a build has the memory and the disk of its sandbox, and no more', async () => {
      const full = Template().fromBaseImage().runCmd('head -c 100M /dev/zero > big')
      const { lines, options } = listening(warren)
      await assert.rejects(
        Template.build(full, 'full', options),
        /exit status 1\. .*No space left on device.*The sandbox's disk is full\./,
      )
      assert.match(lines.join('\n'), /No space left on device/)
      const eating = Template()
        .fromBaseImage()
        .runCmd('python3 -c "x = bytearray(400 * 2**20); print(len(x))"')
      const small = { ...warren.client, memoryMB: 128 }
      await assert.rejects(Template.build(eating, 'eating', small), BuildError)
    })

    // No sandbox takes part in it.
    if (isolation !== 'container') return

    it('a registry is asked only where the operator allows it, and its password goes nowhere else', async () => {
      const port = inside.host.split(':')[1]
      for (const host of [
        inside.host,
        `localhost:${port}`,
        `[::1]:${port}`,
        `2130706433:${port}`,
        '169.254.169.254',
      ]) {
        assert.match(await refusal(Template().fromImage(`${host}/x:1`), 'inside'), /internal network/, host)
      }
      addImage(registry, 'moved', { layers: [await busyboxLayer(), fileLayer('moved', String(Date.now()))] })
      storage.blobs = registry.blobs
      const ask = (to: string) => {
        registry.requests.length = 0
        registry.intercept = (request, response) => {
          if (request.headers.authorization !== `Basic ${basic}`) {
            response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="x"' }).end(login.password)
            return true
          }
          const [, digest] = request.url!.split('/blobs/')
          if (digest) response.writeHead(307, { Location: `http://${to}/v2/moved/blobs/${digest}` }).end()
          return digest !== undefined
        }
        return Template().fromImage(`${registry.host}/moved:moved`, login)
      }
      const { lines, options } = listening(warren)
      assert.match(await refusal(ask(inside.host), 'moved'), /internal network/)
      await Template.build(ask(storage.host), 'moved', options)
      assert.ok(storage.requests.length > 0)
      assert.ok(storage.requests.every(({ headers }) => headers.authorization === undefined))
      const wrong = Template().fromImage(`${registry.host}/moved:moved`, { ...login, username: 'you' })
      const refusalText = await refusal(wrong, 'moved')
      registry.intercept = undefined
      assert.equal(inside.requests.length, 0)
      const { templateID } = (await buildsOf(warren, 'moved'))[0]!
      const shown = await (await warren.api(`/templates/${templateID}`)).text()
      for (const text of [refusalText, shown, ...lines]) assert.ok(!text.includes(login.password), text)
      const hidden = [login.password, basic, Buffer.from(`you:${login.password}`).toString('base64')]
      assert.deepEqual(filesWith(warren.dataFolder, ...hidden), [])
      const known = filesWith(warren.dataFolder, registry.host).join()
      assert.match(known, /logs.*warren\.db|warren\.db.*logs/s)
    })
  })
}
