/**
 * Whether the older releases of the clients ask for the same builds as the newest: what those are proved to be made of
 * with real sandboxes (e2e/template-images.test.ts) holds for the older ones too.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { type BuildRecorder, startBuildRecorder } from './support/build-recorder.ts'
import { type BuildContext, buildContext } from './support/building.ts'
import { imageBuilders, toolBuilders } from './support/image-builders.ts'
import { pythonCommand } from './support/python.ts'
import { registryLogin, serviceAccount } from './support/registry.ts'
import { javaScriptReleases, pythonReleases } from './support/releases.ts'

const muslImage = 'registry.example/team/musl:1'
const pinned = `sha256:${'0'.repeat(64)}`
let recorder: BuildRecorder
let context: BuildContext
before(async () => {
  recorder = await startBuildRecorder()
  context = await buildContext({ 'srv/make.sh': 'true', 'account.json': serviceAccount })
})
after(() => {
  recorder?.close()
  context?.[Symbol.dispose]()
})

test('every JavaScript release sends the same for templates of images and tools', async () => {
  const sent = []
  for (const [, { Template }] of javaScriptReleases('container', 'same')) {
    const contextFolder = context.folder
    const builders = [
      ...imageBuilders(Template, { contextFolder, muslImage, pinned }),
      ...toolBuilders(Template, contextFolder),
    ]
    // Where a caller names no sizes, the older ones send what they take for usual.
    const sizes = { cpuCount: 2, memoryMB: 1024 }
    const client = { apiKey: `e2b_${'0'.repeat(40)}`, apiUrl: recorder.url, ...sizes }
    for (const [name, builder] of builders) await Template.build(builder, name, client)
    sent.push(recorder.take())
  }
  const [newest, older] = sent
  assert.ok(newest!.length >= 2 * 18, `${newest!.length} requests`)
  assert.deepEqual(older, newest)
})

test('every Python release sends the same for templates of images and tools', async () => {
  const script = join(import.meta.dirname, 'e2e/python/images.py')
  const sent = []
  for (const [version] of pythonReleases('container', 'same')) {
    const [python, args] = pythonCommand(version, script, 'any', 'only-send')
    const environment = {
      ...{ E2B_API_KEY: `e2b_${'0'.repeat(40)}`, E2B_API_URL: recorder.url },
      ...{ CONTEXT: context.folder, PINNED: pinned, MUSL_IMAGE: muslImage },
      ...{ REGISTRY_USER: registryLogin.username, REGISTRY_PASSWORD: registryLogin.password },
    }
    await promisify(execFile)(python, args, { env: { ...process.env, ...environment } })
    sent.push(recorder.take())
  }
  const [newest, older] = sent
  assert.ok(newest!.length >= 2 * 16, `${newest!.length} requests`)
  assert.deepEqual(older, newest)
})
