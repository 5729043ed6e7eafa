/** Asks DNS servers on behalf of a sandbox, over UDP and, if the answer does not fit, over TCP. */
import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import type { Clock } from '../lib/clock.ts'
import { randomHex } from '../lib/ids.ts'
import { answersQuestion, isTruncated, type Question, writeQuestion } from './dns-message.ts'

const perServerMs = 2000
const maxServers = 3

/** Returns the first answer of any of the servers; null if none answers. */
export async function askServers(
  servers: readonly string[],
  question: Question,
  clock: Clock,
): Promise<Buffer | null> {
  for (const server of servers.slice(0, maxServers)) {
    const [address = '', port = '53'] = server.split(':')
    const viaUdp = await askUdp(address, Number(port), question, clock)
    if (!viaUdp) continue
    const answer = isTruncated(viaUdp) ? await askTcp(address, Number(port), question, clock) : viaUdp
    if (answer) return answer
  }
  return null
}

/** Uses a new socket, and so a new port, for each question: a forged answer has to guess both. */
function askUdp(address: string, port: number, question: Question, clock: Clock): Promise<Buffer | null> {
  return new Promise((resolve) => {
    const id = newID()
    const socket = createSocket('udp4')
    const done = (answer: Buffer | null) => {
      cancel()
      socket.removeAllListeners().on('error', () => {})
      socket.close()
      resolve(answer)
    }
    const cancel = clock.after(perServerMs, () => done(null))
    socket.on('error', () => done(null))
    socket.on('message', (message) => {
      if (answersQuestion(message, question, id)) done(message)
    })
    // On a connected socket the kernel drops packets from anyone else.
    socket.connect(port, address, () => {
      socket.send(writeQuestion(question, id), (error) => {
        if (error) done(null)
      })
    })
  })
}

function askTcp(address: string, port: number, question: Question, clock: Clock): Promise<Buffer | null> {
  return new Promise((resolve) => {
    const id = newID()
    const socket = connect({ host: address, port, family: 4 })
    let received = Buffer.alloc(0)
    const done = (answer: Buffer | null) => {
      cancel()
      socket.destroy()
      resolve(answer)
    }
    const cancel = clock.after(perServerMs, () => done(null))
    socket.on('error', () => done(null)).on('close', () => done(null))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return
      const message = received.subarray(2, 2 + received.readUInt16BE(0))
      done(answersQuestion(message, question, id) ? message : null)
    })
    socket.write(framed(writeQuestion(question, id)))
  })
}

/** Over TCP, the length precedes the message. */
export function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return Buffer.concat([length, message])
}

const newID = (): number => Number.parseInt(randomHex(2), 16)
