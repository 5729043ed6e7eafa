/**
 * Whether the releases of the clients, of JavaScript and of Python, ask for the same builds: what is proved with real
 * sandboxes for the newest of JavaScript (e2e/template-images.test.ts) holds for all of them.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { type BuildRecorder, startBuildRecorder } from './support/build-recorder.ts'
import { type BuildContext, buildContext } from './support/building.ts'
import { imageBuilders, refusedBuilders, toolBuilders } from './support/image-builders.ts'
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

/** By the newest JavaScript release. */
let sent: string[] = []

test('every JavaScript release sends the same for templates of images and tools', async () => {
  const found = []
  for (const [, { Template }] of javaScriptReleases('container', 'same')) {
    const contextFolder = context.folder
    const builders = [
      ...imageBuilders(Template, { contextFolder, muslImage, pinned }),
      ...toolBuilders(Template, contextFolder),
      ...Object.entries(refusedBuilders(Template, muslImage)),
    ]
    // Where a caller names no sizes, the older ones send what they take for usual.
    const sizes = { cpuCount: 2, memoryMB: 1024 }
    const client = { apiKey: `e2b_${'0'.repeat(40)}`, apiUrl: recorder.url, ...sizes }
    for (const [name, builder] of builders) await Template.build(builder, name, client)
    found.push(recorder.drain())
  }
  const [newest = [], older] = found
  assert.ok(newest.length >= 2 * 20, `${newest.length} requests`)
  assert.deepEqual(older, newest)
  sent = newest
})

test('every Python release sends the same as those of JavaScript', async () => {
  const script = join(import.meta.dirname, 'support/image_builders.py')
  for (const [version] of pythonReleases('container', 'same')) {
    const [python, args] = pythonCommand(version, script)
    const environment = {
      E2B_API_KEY: `e2b_${'0'.repeat(40)}`,
      E2B_API_URL: recorder.url,
      CONTEXT: context.folder,
      PINNED: pinned,
      MUSL_IMAGE: muslImage,
      REGISTRY_USER: registryLogin.username,
      REGISTRY_PASSWORD: registryLogin.password,
    }
    await promisify(execFile)(python, args, { env: { ...process.env, ...environment } })
    assert.deepEqual(recorder.drain(), sent, version)
  }
})
