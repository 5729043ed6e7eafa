/** Secrets with the unmodified clients, over a restart, and what is found of them on the disk. No sandbox is needed. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Secret, SecretError, type SecretInfo, SecretNotFoundError } from 'e2b'
import { filesWith } from '../support/leaked-texts.ts'
import { runPython } from '../support/python.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const value = 'js-value-not-to-be-seen'

describe('secrets', () => {
  let warren: Warren
  before(async () => {
    warren = await startWarren(anyIsolation, { settings: noWarmPool })
  })
  after(() => warren?.stop())

  const keyFile = () => join(warren.dataFolder, 'secret-key.json')

  const leftBy = (...texts: string[]): string[] => filesWith(warren.dataFolder, ...texts)

  it('JS: are created, shown, updated, listed and destroyed', async () => {
    const { client } = warren
    const made = await Secret.create('JS-Key', value, { ...client, metadata: { team: 'é' } })
    assert.deepEqual([made.name, made.version, made.metadata], ['js-key', 1, { team: 'é' }])
    assert.deepEqual(await Secret.getInfo('JS-KEY', client), made)
    assert.deepEqual(await Secret.getInfo(made.secretId, client), made)
    const updated = await Secret.update('js-key', `${value} 2`, client)
    assert.deepEqual([updated.version, updated.metadata], [2, { team: 'é' }])
    const emptied = await Secret.update(made.secretId, `${value} 3`, { ...client, metadata: {} })
    assert.deepEqual([emptied.version, emptied.metadata], [3, {}])
    for (const name of ['two', 'three']) await Secret.create(name, value, client)
    const pages = Secret.list({ ...client, limit: 2 })
    const found: SecretInfo[] = []
    while (pages.hasNext) found.push(...(await pages.nextItems()))
    assert.deepEqual(found.map(({ name }) => name).sort(), ['js-key', 'three', 'two'])
    assert.equal(await Secret.destroy('two', client), true)
    assert.equal(await Secret.destroy('two', client), false)
    assert.equal(await Secret.exists('two', client), false)
    assert.equal(await Secret.exists('three', client), true)
  })

  it('JS: failures have their own classes and contain no value', async () => {
    const { client } = warren
    await assert.rejects(Secret.getInfo('nothing', client), SecretNotFoundError)
    await assert.rejects(Secret.update('nothing', value, client), SecretNotFoundError)
    const problemOf = async (work: Promise<unknown>) => {
      const error = await work.then(
        () => assert.fail('it succeeded'),
        (failure: Error) => failure,
      )
      assert.ok(!error.message.includes(value), error.message)
      return error
    }
    const refused: [name: string, value: string, says: RegExp][] = [
      ['Three', value, /^409: A secret with this name exists already/],
      ['no name', value, /^400: Invalid secrets request: a name is/],
      ['a', `${value}\n`, /^400: Invalid secrets request: the value has a line break/],
    ]
    for (const [name, text, says] of refused) {
      const error = await problemOf(Secret.create(name, text, client))
      assert.ok(error instanceof SecretError)
      assert.match(error.message, says)
    }
  })

  it('Python: behave in the same way', () => {
    runPython(warren, '2.63.0', 'secrets_test.py')
  })

  it('are nowhere in the data folder or the log in plain text, while their names are', async () => {
    assert.ok(leftBy('js-key').some((file) => file.includes('warren.db')))
    const inBase64 = Buffer.from(value).toString('base64').slice(0, 28)
    assert.deepEqual(leftBy(value, 'python-value-not-to-be-seen', inBase64), [])
    assert.equal(statSync(keyFile()).mode & 0o777, 0o600)
    const { key } = JSON.parse(readFileSync(keyFile(), 'utf8'))
    assert.deepEqual(leftBy(key), [keyFile()])
  })

  it('a key is in no file, except the first one in the file for `warren env`', async () => {
    const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
    const made = await warren.api('/admin/teams/default/api-keys', { ...asOperator, body: { name: 'new' } })
    const { key } = (await made.json()) as { key: string }
    assert.equal((await warren.api('/v2/sandboxes', { key })).status, 200)
    assert.deepEqual(leftBy(key), [])
    const forEnv = join(warren.dataFolder, 'credentials.json')
    assert.deepEqual(leftBy(warren.apiKey), [forEnv])
    assert.equal(statSync(forEnv).mode & 0o777, 0o600)
  })

  it('a value is in no file of the data folder, before and after a crash', async () => {
    const text = `value-${randomUUID()}`
    await Secret.create('in-no-file', text, warren.client)
    assert.deepEqual(leftBy(text), [])
    await warren.crash()
    assert.deepEqual(leftBy(text), [])
    warren = await startWarren(anyIsolation, { settings: noWarmPool, keepData: true })
    assert.equal(await Secret.exists('in-no-file', warren.client), true)
    await Secret.destroy('in-no-file', warren.client)
  })

  it('exist after a crash, and are still nowhere in plain text', async () => {
    const key = readFileSync(keyFile(), 'utf8')
    await warren.crash()
    warren = await startWarren(anyIsolation, { settings: noWarmPool, keepData: true })
    const shown = await Secret.getInfo('js-key', warren.client)
    assert.equal(shown.version, 3)
    assert.equal(readFileSync(keyFile(), 'utf8'), key)
    assert.deepEqual(leftBy(value), [])
    assert.doesNotMatch(readFileSync(warren.logFile, 'utf8'), /sealed with another key/)
  })

  it('are named in the log at the start if their key is lost; Warren serves, and new values work', async () => {
    await warren.stop()
    const away = `${keyFile()}.away`
    renameSync(keyFile(), away)
    try {
      warren = await startWarren(anyIsolation, { settings: noWarmPool, keepData: true })
      assert.ok(existsSync(keyFile()))
      assert.match(readFileSync(warren.logFile, 'utf8'), /secrets were sealed with another key/)
      assert.equal((await Secret.update('js-key', value, warren.client)).version, 4)
    } finally {
      rmSync(keyFile(), { force: true })
      renameSync(away, keyFile())
    }
  })
})
