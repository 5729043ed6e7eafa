/** Answers that stay open and bring new lines of the audit, as JSON lines. */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AuditFilter } from '../../../core/audit/audit-store.ts'
import { followAudit } from '../../../core/audit/follow-audit.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'
import { presentAudit } from './page.ts'

const maxFollowersPerTeam = 5
const maxFollowers = 50
/** The client asks again; so a key that was revoked meanwhile does not follow for ever. */
const longestMs = 15 * 60_000

export class AuditFollowers {
  readonly #context: Pick<RouteContext, 'auditLines' | 'clock' | 'health'>
  readonly #counts = new Map<string, number>()

  constructor(context: Pick<RouteContext, 'auditLines' | 'clock' | 'health'>) {
    this.#context = context
  }

  answer(request: FastifyRequest, reply: FastifyReply, filter: AuditFilter): FastifyReply {
    const { clock, health, auditLines } = this.#context
    const leave = this.#enter(filter.teamID ?? '')
    const until = clock.now() + longestMs
    const left = new AbortController()
    request.raw.once('close', () => left.abort())
    reply.raw.once('close', () => {
      left.abort()
      leave()
    })
    const isOver = () => clock.now() >= until || health.whyNotServing() !== undefined
    const lines = followAudit({ auditLines, clock, signal: left.signal, isOver }, filter)
    return reply
      .type('application/x-ndjson; charset=utf-8')
      .header('cache-control', 'no-store')
      .send(Readable.from(asText(lines), { objectMode: false }))
  }

  /** Returns how to leave. */
  #enter(key: string): () => void {
    const all = [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
    const own = this.#counts.get(key) ?? 0
    if (own >= maxFollowersPerTeam || all >= maxFollowers) {
      const message = `At most ${maxFollowersPerTeam} clients of a team follow its audit at once: end one of them first`
      throw new AppError('limit_reached', message, { retry: { should: false } })
    }
    this.#counts.set(key, own + 1)
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      const count = (this.#counts.get(key) ?? 1) - 1
      if (count > 0) this.#counts.set(key, count)
      else this.#counts.delete(key)
    }
  }
}

async function* asText(lines: ReturnType<typeof followAudit>): AsyncGenerator<string> {
  // The head of the answer goes out at once, before there is a line.
  yield '\n'
  for await (const line of lines) yield line ? `${JSON.stringify(presentAudit(line))}\n` : '\n'
}
