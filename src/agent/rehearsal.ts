/**
 * Goes the way of a first command in an agent that nobody else reaches, so that the first one of the owner finds compiled,
 * loaded and in memory what every command needs: the log is followed, as the control plane does, and a command asked for.
 */

import type { Server } from 'node:http'
import { duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'

/** Whatever `bash` is here, it must not be there for long. */
const longestMs = 5000
/** Without the files that a login shell reads: they are the owner's to run. */
const command = { cmd: '/bin/bash', args: ['-c', 'id -u'], envs: { BASH_ENV: '' } }

/** Resolves with the answer, whatever it is. The server listens nowhere, and asks for no token. */
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

/** Sends over no network; what is returned is the client's end of the connection. */
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
