import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { endWorker } from './ending-worker.ts'

const echo = `
const { parentPort } = require('node:worker_threads')
import('${import.meta.dirname}/ending-worker.ts').then(({ hearMessages }) =>
  hearMessages((message) => parentPort.postMessage(message)))`

test('a worker that is asked to end while it starts first handles its earlier messages, and then ends', async (t) => {
  const terminate = t.mock.method(Worker.prototype, 'terminate')
  const worker = new Worker(echo, { eval: true })
  const heard: string[] = []
  worker.on('message', (message) => heard.push(message))
  worker.postMessage('first')
  worker.postMessage('second')
  await endWorker(worker)
  assert.deepEqual(heard, ['first', 'second'])
  assert.equal(worker.threadId, -1)
  assert.equal(terminate.mock.callCount(), 0)
})

test('a worker that has already ended is not waited for', async () => {
  const worker = new Worker('', { eval: true })
  await new Promise((resolve) => worker.once('exit', resolve))
  await endWorker(worker)
})
