/**
 * Runs a first command in an agent that nobody else reaches, so that the owner's first command finds all code
 * that every command needs compiled, loaded and in memory: follows the log, as the control plane does, and
 * runs a command.
 */

import type { Server } from 'node:http'
import { duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'

/** Limits the run time, whatever `bash` is in this image. */
const longestMs = 5000
/** Without the files that a login shell reads: only the owner may run those. */
const command = { cmd: '/bin/bash', args: ['-c', 'id -u'], envs: { BASH_ENV: '' } }

/** Resolves with the answer, whatever it is. The server listens nowhere, and requires no token. */
export async function rehearseCommand(server: Server): Promise<string> {
  const following = request(server, 'GET /logs?after=0')
  try {
    return await text(request(server, 'POST /process.Process/Start', startMessage()))
  } finally {
    following.destroy()
  }
}

function startMessage(): Buffer {
  const message = Buffer.from(JSON.stringify({ process: command, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Sends without a network; returns the client's end of the connection. */
function request(server: Server, line: string, body: Uint8Array = new Uint8Array()) {
  const [ours, theirs] = duplexPair()
  ours.on('error', () => {})
  server.emit('connection', theirs)
  const head = [
    ...[`${line} HTTP/1.1`, 'host: rehearsal', 'connection: close', `connect-timeout-ms: ${longestMs}`],
    ...['content-type: application/connect+json', `content-length: ${body.length}`],
  ]
  ours.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]))
  return ours
}
