/**
 * Parses request bodies as strict UTF-8 JSON, whatever content type the client names. No body is undefined.
 */
import type { FastifyInstance } from 'fastify'
import { AppError } from '../lib/app-error.ts'

export const maxBodyBytes = 1024 * 1024
const deepestNesting = 64

/**
 * The server has no time limit, because uploads to sandboxes may last; a body for the API must arrive within
 * this time.
 */
const bodyWithinMs = 30_000

export function parseBodies(app: FastifyInstance): void {
  app.addHook('preParsing', async ({ raw, routeOptions }) => {
    if ((routeOptions.config as { streamsBody?: boolean }).streamsBody) return
    const timer = setTimeout(() => raw.destroy(), bodyWithinMs).unref()
    raw.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer))
  })
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const parseJson = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (body.length === 0) return done(null, undefined)
    let text: string
    try {
      text = decoder.decode(body)
    } catch {
      return done(invalidBody('it is not UTF-8'))
    }
    if (isDeeperThan(text, deepestNesting)) {
      return done(invalidBody(`it is nested deeper than ${deepestNesting} levels`))
    }
    parseJson(request, text, (error, value) => {
      if (!error) return done(null, value)
      const why = isJson(text)
        ? "a key '__proto__' or 'constructor.prototype' is not taken"
        : 'it is not JSON'
      done(invalidBody(why))
    })
  })
}

/** Checked before parsing: a parsed body is also serialized as JSON again, which recurses once per level. */
function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (inString) {
      if (char === '\\') at++
      else if (char === '"') inString = false
    } else if (char === '"') inString = true
    else if (char === '[' || char === '{') {
      if (++depth > limit) return true
    } else if (char === ']' || char === '}') depth--
  }
  return false
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const invalidBody = (why: string) =>
  new AppError('invalid_argument', `Invalid request body: ${why}; send a JSON object`)
