/** What the agent answered, with as much of its text as is worth quoting. */
import type { ClientRequest } from 'node:http'

export type Answer = { status: number; text: string }

const longestQuote = 1000

export function answerTo(outgoing: ClientRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        if (text.length < longestQuote) text += chunk
      })
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: text.slice(0, longestQuote) }),
      )
    })
  })
}
