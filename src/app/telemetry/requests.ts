/** Counts and times the requests to the API and to sandboxes, and logs each if the operator wants that. */
import type { AnsweredRequest } from '../../api/request-id.ts'
import type { FinishedRequest } from '../../edge/request-watch.ts'
import type { Log } from '../../lib/log.ts'
import type { Histogram, Measures } from '../../lib/measures.ts'

type AccessLog = 'off' | 'errors' | 'all'

const firstError = 400
const tunnel = 101

type RequestCounters = {
  onAnswered(answered: AnsweredRequest): void
  onFinished(finished: FinishedRequest): void
}

export function countRequests(measures: Measures, accessLog: AccessLog, log: Log): RequestCounters {
  const ofApi = measures.histogram(
    'warren_api_request_seconds',
    'Requests to the API, by route and status, and how long they took.',
    ['method', 'route', 'code'],
  )
  const ofEdge = measures.histogram(
    'warren_edge_request_seconds',
    'Requests to sandboxes and how long their answers took to begin, by whom they were for and class of status.',
    ['target', 'code'],
  )
  const tunnels = measures.counter('warren_edge_tunnels_total', 'WebSockets and other tunnels that ended.', [
    'target',
  ])
  // Cached, because every request to a sandbox needs it: the names of the classes are not built each time.
  const byTarget = new Map<string, Histogram>()
  const isWanted = (status: number) => accessLog === 'all' || (accessLog === 'errors' && status >= firstError)
  return {
    onAnswered(answered) {
      const { method, route, status, durationMs } = answered
      // A client may send any method, so unknown routes share one label.
      const labels = route === undefined ? ['other', 'none'] : [method, route]
      ofApi.of(...labels, String(status)).observe(durationMs / 1000)
      if (isWanted(status))
        log.info(
          { access: 'api', ...answered, durationMs: Math.round(durationMs) },
          'A request to the API was answered.',
        )
    },
    onFinished(finished) {
      const { target, status } = finished
      if (status === tunnel) tunnels.of(target).add()
      else {
        const key = `${target}${Math.floor(status / 100)}`
        let histogram = byTarget.get(key)
        if (!histogram) {
          histogram = ofEdge.of(target, `${Math.floor(status / 100)}xx`)
          byTarget.set(key, histogram)
        }
        histogram.observe(finished.answeredMs / 1000)
      }
      if (isWanted(status))
        log.info({ access: 'edge', ...finished, ...inWholeMs(finished) }, 'A request to a sandbox ended.')
    },
  }
}

const inWholeMs = ({ answeredMs, totalMs }: FinishedRequest) => ({
  answeredMs: Math.round(answeredMs),
  totalMs: Math.round(totalMs),
})
