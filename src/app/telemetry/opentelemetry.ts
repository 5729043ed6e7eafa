/**
 * Spans of OpenTelemetry, sent by OTLP over HTTP. The library reads the target, the headers and the sampling
 * from the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, …).
 */
import {
  trace as api,
  context,
  type Span,
  SpanStatusCode,
  type Tracer as SpanTracer,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import type { Log } from '../../lib/log.ts'
import { currentRequestID } from '../../lib/request-id.ts'
import type { TraceAttributes, Tracer } from '../../lib/tracer.ts'
import { traceProtocol } from '../config/config.ts'

/** Operations that clients ask for. The server's own periodic work makes no traces. */
const beginsTrace = /^(?:sandbox|template)\./

export type Spans = Tracer & { close(): Promise<void> }

export function openSpans(version: string, log: Log): Spans {
  const exporter = createExporter(traceProtocol())
  const named = resourceFromAttributes({ 'service.name': 'warren', 'service.version': version })
  const provider = new BasicTracerProvider({
    // The operator's attributes of the service override Warren's own.
    resource: defaultResource()
      .merge(named)
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const tracer = provider.getTracer('warren', version)
  log.info({}, 'Traces of operations are sent by OpenTelemetry.')
  return {
    trace(operation, attributes, work) {
      const isPartOfTrace = api.getSpan(context.active()) !== undefined
      return isPartOfTrace || beginsTrace.test(operation)
        ? inSpan(tracer, operation, attributes, work)
        : work()
    },
    async close() {
      await provider.shutdown()
      context.disable()
    },
  }
}

function createExporter(protocol: string): JsonExporter | ProtobufExporter {
  if (protocol === 'http/json') return new JsonExporter()
  if (protocol === 'http/protobuf') return new ProtobufExporter()
  throw new AppError(
    'invalid_argument',
    `OTEL_EXPORTER_OTLP_PROTOCOL is '${protocol}', but Warren sends traces by http/protobuf or http/json: choose one of them, and the port of your collector for HTTP (usually 4318).`,
  )
}

function inSpan<T>(
  tracer: SpanTracer,
  operation: string,
  attributes: TraceAttributes,
  work: () => Promise<T>,
): Promise<T> {
  return tracer.startActiveSpan(operation, { attributes }, async (span) => {
    const requestID = currentRequestID()
    if (requestID !== undefined) {
      span.setAttribute('warren.request', requestID)
    }
    try {
      return await work()
    } catch (error) {
      recordFailure(span, error)
      throw error
    } finally {
      span.end()
    }
  })
}

function recordFailure(span: Span, error: unknown): void {
  const code = isAppError(error) ? error.code : 'internal'
  span.setAttribute('error.type', code)
  span.setStatus({ code: SpanStatusCode.ERROR, message: errorText(error) })
}
