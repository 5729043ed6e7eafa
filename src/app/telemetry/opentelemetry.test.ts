import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { AppError } from '../../lib/app-error.ts'
import { silentLog } from '../../lib/log.ts'
import { Measures } from '../../lib/measures.ts'
import { onBehalfOf } from '../../lib/request-id.ts'
import { wantsTraces } from '../config/config.ts'
import { openSpans } from './opentelemetry.ts'
import { OperationTracer } from './operation-tracer.ts'

type SentSpan = {
  name: string
  traceId: string
  spanId: string
  parentSpanId?: string
  status: { code?: number; message?: string }
  attributes: { key: string; value: { stringValue?: string } }[]
}

/** What a collector would get. */
const received: { path: string | undefined; key: string | string[] | undefined; body: unknown }[] = []
const collector = http.createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const body = JSON.parse(Buffer.concat(chunks).toString())
  received.push({ path: request.url, key: request.headers['x-key'], body })
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
})
await once(collector.listen(0, '127.0.0.1'), 'listening')

const variables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_EXPORTER_OTLP_HEADERS: 'x-key=secret',
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
}
Object.assign(process.env, variables)
after(() => {
  for (const name of Object.keys(variables)) delete process.env[name]
  collector.close()
})

test('operations reach the collector that the standard variables name, as one trace', async () => {
  const spans = openSpans('1.2.3', silentLog)
  const tracer = new OperationTracer(new Measures(), spans)
  await onBehalfOf('request-7', () =>
    tracer.trace('sandbox.create', { 'warren.template': 'base' }, async () => {
      await tracer.trace('store.sandboxes.insertWithinLimits', {}, async () => {})
      const failing = async () => {
        throw new AppError('unavailable', 'The machine is full.')
      }
      await tracer.trace('driver.start', {}, failing).catch(() => {})
    }),
  )
  await tracer.trace('store.deliveries.listDue', {}, async () => {})
  await spans.close()
  assert.deepEqual([...new Set(received.map(({ path, key }) => `${path} ${key}`))], ['/v1/traces secret'])
  const { resource, scopeSpans } = (received[0]!.body as { resourceSpans: ResourceSpans[] }).resourceSpans[0]!
  const about = Object.fromEntries(resource.attributes.map(({ key, value }) => [key, value.stringValue]))
  assert.equal(about['service.name'], 'warren')
  assert.equal(about['service.version'], '1.2.3')
  assert.equal(about['deployment.environment'], 'test')
  const sent = new Map(scopeSpans.flatMap((scope) => scope.spans).map((span) => [span.name, span]))
  assert.ok(!sent.has('store.deliveries.listDue'), 'what nobody asked for has become a trace')
  const create = sent.get('sandbox.create')!
  const start = sent.get('driver.start')!
  assert.equal(start.parentSpanId, create.spanId)
  assert.equal(sent.get('store.sandboxes.insertWithinLimits')?.traceId, create.traceId)
  assert.deepEqual(start.status, { code: 2, message: 'The machine is full.' })
  const attributes = Object.fromEntries(create.attributes.map(({ key, value }) => [key, value.stringValue]))
  assert.equal(attributes['warren.request'], 'request-7')
  assert.equal(attributes['warren.template'], 'base')
})

type ResourceSpans = {
  resource: { attributes: SentSpan['attributes'] }
  scopeSpans: { spans: SentSpan[] }[]
}

test('traces are wanted when a collector is named, and not when they are turned off', () => {
  assert.equal(wantsTraces({}), false)
  assert.equal(wantsTraces({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }), true)
  assert.equal(wantsTraces({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/x' }), true)
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
  assert.equal(wantsTraces({ ...endpoint, OTEL_SDK_DISABLED: 'true' }), false)
  assert.equal(wantsTraces({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }), false)
})

test('an unsupported protocol is rejected with the supported ones', () => {
  process.env.OTEL_EXPORTER_OTLP_PROTOCOL = 'grpc'
  assert.throws(
    () => openSpans('1', silentLog),
    /'grpc', but Warren sends traces by http\/protobuf or http\/json/,
  )
  process.env.OTEL_EXPORTER_OTLP_PROTOCOL = variables.OTEL_EXPORTER_OTLP_PROTOCOL
})
