import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify from 'fastify'
import { openApi } from '../../test/support/api.ts'
import { AppError } from '../lib/app-error.ts'
import { silentLog } from '../lib/log.ts'
import { requestIDOf } from '../lib/request-id.ts'
import { handleErrors } from './error-handler.ts'

test('a failed start shows no message of the runtime, but the id of the log line that has it', async () => {
  await using warren = await openApi()
  warren.fixture.driver.beforeStarted = async () => {
    throw new Error('runsc: cannot read /var/lib/secret/place')
  }
  const answer = await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
  assert.equal(answer.status, 500)
  assert.match(answer.json().message, /^The sandbox could not be started: .+ \(request [0-9a-f]{16}\)$/)
  assert.doesNotMatch(answer.body, /runsc|secret/)
})

test('the id of a failure in an answer is in the log, beside its cause', async () => {
  const logged: { requestID?: string; err?: Error }[] = []
  const app = Fastify({ genReqId: requestIDOf })
  handleErrors(app, { ...silentLog, error: (values) => void logged.push(values) })
  app.get('/', async () => {
    throw new AppError('unavailable', 'The runtime could not start the sandbox.', {
      cause: new Error('inner words'),
    })
  })
  const { message } = (await app.inject('/')).json()
  const [, id] = /\(request ([0-9a-f]{16})\)$/.exec(message)!
  const [{ requestID, err } = {}] = logged
  assert.deepEqual([requestID, String(err?.cause)], [id, 'Error: inner words'])
  await app.close()
})
