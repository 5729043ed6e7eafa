/** Reads the variables with which the sandbox was created from its agent. */
import { request } from 'node:http'
import { envdPort, header } from '../contract/constants.ts'
import { AppError } from '../lib/app-error.ts'

const answersWithinMs = 5000
const largestAnswer = 8 * 1024 * 1024

/**
 * Undefined if there is no agent, or if its answer is malformed: a cell then runs without them. Rejects with
 * `unauthenticated` if the sandbox has another token, and with `unavailable` if the agent is too busy to
 * answer.
 */
export function readSandboxVariables(
  accessToken: string | undefined,
  port = envdPort,
): Promise<Record<string, string> | undefined> {
  const headers = accessToken === undefined ? {} : { [header.accessToken]: accessToken }
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path: '/envs', headers, timeout: answersWithinMs })
    const giveUp = () => {
      asked.destroy()
      resolve(undefined)
    }
    asked.on('timeout', () => {
      asked.destroy()
      reject(new AppError('unavailable', 'The agent of this sandbox does not answer. Try again.'))
    })
    asked.on('error', giveUp)
    asked.on('response', (response) => {
      if (response.statusCode === 401) {
        asked.destroy()
        return reject(
          new AppError(
            'unauthenticated',
            "Send the sandbox's access token in the header X-Access-Token. Clients of the code interpreter before 2.0 send none: " +
              'update the client, or have the operator allow older clients (`warren team older-clients TEAM yes`, or ' +
              'WARREN_OLDER_CLIENTS=yes for all teams) and create ' +
              'another sandbox from a template whose name begins with code-interpreter.',
          ),
        )
      }
      if (response.statusCode !== 200) return giveUp()
      const parts: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > largestAnswer) giveUp()
        else parts.push(chunk)
      })
      response.on('error', giveUp)
      response.on('end', () => resolve(parse(Buffer.concat(parts).toString())))
    })
    asked.end()
  })
}

function parse(text: string): Record<string, string> | undefined {
  try {
    const found: unknown = JSON.parse(text)
    if (typeof found !== 'object' || found === null) return undefined
    return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === 'string'))
  } catch {
    return undefined
  }
}
